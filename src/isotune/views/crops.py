"""Crops: two passages of a text as its two views (González-Márquez, Berens and Kobak, 2026).

A passage is up to two sentences that follow one another, as in the authors' code. The text is cut
at a random end of a sentence, and each side gives a passage, so the two have no sentence in common.

The paper has no text of a single sentence. Here such a text is cut between two of its words, and a
passage is up to about 200 characters of a side. Only a text of a single word is both passages.
"""

import re
from collections.abc import Sequence

import torch
from torch import Generator

SENTENCES = 2
"""The most sentences of a passage."""

CHARACTERS = 200
"""The most characters of a passage of a single sentence: about those of two English sentences."""

# What ends a sentence: a line feed; a final mark that needs no space behind it (Chinese and
# Japanese, Devanagari, Arabic, Urdu, Armenian, Ethiopic, Burmese, Khmer); or another final mark, a
# quotation mark or bracket, and a space. Initials and the most frequent titles end no sentence.
_SENTENCE_END = re.compile(
    r"\n|[\u3002\uff01\uff1f\uff61\u0964\u0965\u061f\u06d4\u0589\u1362\u1367\u104b\u17d4]+"
    r"|[.!?\u2026][\"')\u201d\u2019]?(?<!\b[A-Z]\.)(?<!\b(?:Mr|Ms|Dr|St|vs)\.)(?<!\bMrs\.)\s+(?![a-z])"
)
# What stands between two words. Scripts without spaces have something between each two characters:
# Thai, Lao, Tibetan, Burmese, Khmer, kana and Chinese characters.
_UNSPACED = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
_BETWEEN_WORDS = re.compile(rf"\s+|(?<=[{_UNSPACED}])(?=[{_UNSPACED}])")


def two_passages(texts: Sequence[str], generator: Generator) -> tuple[list[str], list[str]]:
    """Two passages of each text; the random numbers come from the generator."""
    firsts: list[str] = []
    seconds: list[str] = []
    draws = torch.rand(len(texts), 3, generator=generator).tolist()
    for text, (cut, of_first, of_second) in zip(texts, draws, strict=True):
        sentences = sentences_of(text)
        if len(sentences) > 1:
            end = 1 + int(cut * (len(sentences) - 1))
            firsts.append(_some_sentences(sentences[:end], of_first))
            seconds.append(_some_sentences(sentences[end:], of_second))
        else:
            first, second = _cut_between_words(text.strip(), cut)
            firsts.append(_some_words(first, of_first))
            seconds.append(_some_words(second, of_second))
    return firsts, seconds


def sentences_of(text: str) -> list[str]:
    """The sentences of a text; none is blank."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    starts = [0, *ends]
    sentences = [text[a:b].strip() for a, b in zip(starts, [*ends, len(text)], strict=True)]
    return list(filter(None, sentences))


def _some_sentences(sentences: Sequence[str], share: float) -> str:
    """Up to `SENTENCES` sentences that follow one another; the share says where they begin."""
    start = int(share * (max(len(sentences) - SENTENCES, 0) + 1))
    return " ".join(sentences[start : start + SENTENCES])


def _cut_between_words(text: str, share: float) -> tuple[str, str]:
    """Both sides of the first space between words behind this share of the text.

    A single word is both sides.
    """
    place = int(share * len(text))
    space = _BETWEEN_WORDS.search(text, place) or _BETWEEN_WORDS.search(text)
    if space is None:
        return text, text
    return text[: space.start()].rstrip(), text[space.end() :]


def _some_words(text: str, share: float) -> str:
    """Whole words of a text, about `CHARACTERS` characters; the share says where they begin."""
    start = int(share * (max(len(text) - CHARACTERS, 0) + 1))
    if start:
        before = _BETWEEN_WORDS.search(text, start)
        start = before.end() if before else 0
    after = _BETWEEN_WORDS.search(text, start + CHARACTERS)
    end = after.start() if after else len(text)
    return text[start:end]
