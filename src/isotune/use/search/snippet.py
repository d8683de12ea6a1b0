"""The part of a found text that is shown: the one with most of the query's words.

The server's page (`use/serve/page/page.js`) chooses words and part by the same rules.
"""

import regex

BEFORE = 40
"""Characters of a snippet before the first word that fits."""

LONG = 4
"""Characters of a long word. Shorter words of a query say little, unless there are no others."""

WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def pattern(query: str) -> regex.Pattern[str]:
    """What finds the words of a query in a text, in any case."""
    words = WORD.findall(query)
    chosen = [word for word in words if len(word) >= LONG] or words
    # "$^" finds nothing.
    either = "|".join(chosen) or "$^"
    return regex.compile(
        rf"(?<![\p{{L}}\p{{M}}\p{{N}}])(?:{either})(?![\p{{L}}\p{{M}}\p{{N}}])", regex.IGNORECASE
    )


def snippet(text: str, words: regex.Pattern[str], size: int) -> str:
    """Some `size` characters of a text in one line, with most of the different words.

    Dots stand for what is left out.
    """
    line = " ".join(text.split())
    if len(line) <= size:
        return line
    before = min(BEFORE, size // 3)
    start = max(0, min(_best_place(line, words, size - before) - before, len(line) - size))
    part = line[start : start + size]
    # A word that is cut at an end is left out, where the text has spaces.
    if start:
        part = regex.sub(r"^(\S* (?=\S))?", "… ", part, count=1)
    if start + size < len(line):
        part = regex.sub(r"( \S*)?$", " …", part, count=1)
    return part


def _best_place(line: str, words: regex.Pattern[str], size: int) -> int:
    """The place of the first of most different words within `size` characters."""
    found = [(match.start(), match[0].lower()) for match in words.finditer(line)]
    best = 0
    most = 0
    for start, _ in found:
        near = {word for place, word in found if start <= place < start + size}
        if len(near) > most:
            best = start
            most = len(near)
    return best
