"""Pairs of texts that mean the same, found by an encoder in plain text: training data for the next encoder.

Two texts are a pair if each is among the other's nearest, their cosine is large enough, and they differ by more than
case, spaces and punctuation, because equal texts teach nothing.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from isotune.encoder.encoder import Encoder
from isotune.use.search.exact import nearest

NEIGHBOURS = 3  # of each text
QUERIES = 256  # texts whose nearest are looked for at a time


class MinedPair(NamedTuple):
    """Two texts that mean the same, and the cosine of their vectors."""

    sentence1: str
    sentence2: str
    cosine: float


def mine_pairs(texts: Iterable[str], encoder: Encoder, least: float, *, show_progress: bool = False) -> list[MinedPair]:
    """The pairs of texts with at least the cosine `least`, the nearest first."""
    sentences = list({_letters(text): text for text in texts}.values())
    vectors = encoder.encode(sentences, normalize=True, show_progress=show_progress)
    near: dict[tuple[int, int], float] = {}  # the cosine of a text and each of its nearest
    for start in range(0, len(vectors), QUERIES):
        # A text is the nearest to itself.
        cosines, rows = nearest(vectors[start : start + QUERIES], vectors, NEIGHBOURS + 1)
        query, place = np.nonzero(cosines >= least)
        edges = zip((query + start).tolist(), rows[query, place].tolist(), strict=True)
        near.update(zip(edges, cosines[query, place].tolist(), strict=True))
    chosen = (
        MinedPair(sentences[i], sentences[j], cosine) for (i, j), cosine in near.items() if i < j and (j, i) in near
    )
    return sorted(chosen, key=lambda pair: -pair.cosine)


def _letters(text: str) -> str:
    """A text without case, spaces and punctuation; the whole text if nothing else is in it."""
    return "".join(filter(str.isalnum, text.casefold())) or text
