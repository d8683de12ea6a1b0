"""Pairs of texts that mean the same, found by an encoder in plain text: training data for the next encoder.

Two texts are a pair if each is among the other's nearest, their cosine is large enough, and they differ by more than
case, spaces and punctuation, because equal texts teach nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from isotune.encoder.stream import StreamEncoder
from isotune.use.search.exact import Vectors

NEIGHBOURS = 3  # of each text


class MinedPair(NamedTuple):
    """Two texts that mean the same, and the cosine of their vectors."""

    sentence1: str
    sentence2: str
    cosine: float


def mine_pairs(
    texts: Iterable[str], encoder: StreamEncoder, least: float, *, show_progress: bool = False
) -> list[MinedPair]:
    """The pairs of texts with at least the cosine `least`, the nearest first."""
    different = {_letters(text): text for text in texts}
    sentences = list(different.values())
    vectors = encoder.encode(sentences, normalize=True, show_progress=show_progress)
    cosines, nearest = Vectors(vectors).nearest(vectors, NEIGHBOURS + 1)  # a text is the nearest to itself
    first, place = np.nonzero(cosines >= least)
    second = nearest[first, place]
    edges = set(zip(first.tolist(), second.tolist(), strict=True))
    chosen = [
        MinedPair(sentences[i], sentences[j], float(cosine))
        for i, j, cosine in zip(first.tolist(), second.tolist(), cosines[first, place], strict=True)
        if i < j and (j, i) in edges
    ]
    return sorted(chosen, key=lambda pair: -pair.cosine)


def _letters(text: str) -> str:
    """A text without case, spaces and punctuation; the whole text if nothing else is in it."""
    return "".join(filter(str.isalnum, text.casefold())) or text
