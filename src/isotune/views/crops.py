"""Crops: two passages of a text as its two views (González-Márquez, Berens and Kobak, 2026).

A passage is up to two sentences that follow one another, as in the authors' code. The text is cut
at a random end of a sentence, and each side gives a passage, so the two have no sentence in common.
A text of a single sentence is both.
"""

import re
from collections.abc import Sequence

import torch
from torch import Generator

SENTENCES = 2
"""The most sentences of a passage."""

# Where a text is cut into sentences: at a line feed, and after a final mark (also the Chinese
# ones). Initials and the most frequent titles end no sentence.
_SENTENCE_END = re.compile(
    r"\n|(?<=[\u3002\uff01\uff1f])|(?:(?<=[.!?])|(?<=[.!?][\"')\u201d\u2019]))"
    r"(?<!\b[A-Z]\.)(?<!\b(?:Mr|Ms|Dr|St|vs)\.)(?<!\bMrs\.)\s+(?![a-z])"
)


def two_passages(texts: Sequence[str], generator: Generator) -> tuple[list[str], list[str]]:
    """Two passages of each text; the random numbers come from the generator."""
    first: list[str] = []
    second: list[str] = []
    draws = torch.rand(len(texts), 3, generator=generator).tolist()
    for text, (cut, first_share, second_share) in zip(texts, draws, strict=True):
        sentences = sentences_of(text)
        end = 1 + int(cut * (len(sentences) - 1))
        first.append(_passage(sentences[:end], first_share))
        second.append(_passage(sentences[end:] or sentences, second_share))
    return first, second


def _passage(sentences: Sequence[str], share: float) -> str:
    """The passage whose start is at this share of all possible starts."""
    starts = max(len(sentences) - SENTENCES, 0) + 1
    start = int(share * starts)
    return " ".join(sentences[start : start + SENTENCES])


def sentences_of(text: str) -> list[str]:
    """The sentences of a text; none is blank."""
    return list(filter(None, map(str.strip, _SENTENCE_END.split(text))))
