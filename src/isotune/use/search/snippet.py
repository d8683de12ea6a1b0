"""The part of a found text that is shown: the one with most of the query's words.

The server's page (`use/serve/page/page.js`) chooses words and part by the same rules.
"""

from collections.abc import Iterator, Set

import regex

BEFORE = 40
"""Characters of a snippet before the first word that fits."""

LONG = 4
"""Characters of a long word. Shorter words of a query say little, unless there are no others."""

WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def words_of(query: str) -> Set[str]:
    """The words of a query that are looked for in texts, in small letters."""
    words = WORD.findall(query)
    chosen = [word for word in words if len(word) >= LONG] or words
    return {word.casefold() for word in chosen}


def find(words: Set[str], text: str) -> Iterator[regex.Match[str]]:
    """The places of words in a text, in any case.

    A pattern of the words themselves would take seconds to compile for a query that is a document.
    """
    for match in WORD.finditer(text):
        if match[0].casefold() in words:
            yield match


def snippet(text: str, words: Set[str], size: int) -> str:
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


def _best_place(line: str, words: Set[str], size: int) -> int:
    """The place of the first of most different words within `size` characters."""
    found = [(match.start(), match[0].casefold()) for match in find(words, line)]
    best = 0
    most = 0
    for start, _ in found:
        near = {word for place, word in found if start <= place < start + size}
        if len(near) > most:
            best = start
            most = len(near)
    return best
