"""What training changed between a user's own sentences: nearest sentences, pairs that moved, and near-duplicates.

Training changes the scale of the cosines, so the cosines of two encoders are not compared with each other. What is
compared is the order of the pairs: pair number 1 of the sample is the pair with the largest cosine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from isotune.evaluation import correlations
from isotune.evaluation.vectors import unit_length

Floats = NDArray[np.floating[Any]]

CHANGES = "text-changes.json"
READ = 20_000  # so many different sentences are read at most
SENTENCES = 1_000  # so many of these are compared, drawn at random
FEWEST_SENTENCES = 3
LONGEST = 300  # characters of a sentence in an example; more are cut
EXAMPLES = 8
NEIGHBOURS = 10
DUPLICATE = 0.95  # the least cosine of two sentences that an encoder takes for the same


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MovedPair(_Table):
    """Two sentences, with the number of their pair when all pairs are sorted by cosine, and the cosine."""

    first: str
    second: str
    number_before: int
    number_after: int
    cosine_before: float
    cosine_after: float


class NewNearest(_Table):
    """A sentence with another nearest sentence than before."""

    sentence: str
    before: str
    after: str


class TextChanges(_Table):
    """How two encoders differ on the same sentences."""

    sentences: int
    pairs: int  # of all sentences with each other
    agreement: float  # Spearman's correlation of the cosines before and after, over all pairs
    same_nearest: float  # share of the sentences whose nearest sentence is the same
    same_neighbours: float  # share of the `NEIGHBOURS` nearest sentences that are the same
    new_nearest: tuple[NewNearest, ...]
    closer: tuple[MovedPair, ...]
    apart: tuple[MovedPair, ...]
    duplicates_before: int  # pairs with at least the cosine `DUPLICATE`
    duplicates_after: int
    duplicates: tuple[MovedPair, ...]  # those of the encoder after training


class _Space(NamedTuple):
    """The pairs of n sentences under one encoder."""

    cosines: Floats  # [n, n], -inf of a sentence with itself
    numbers: NDArray[np.int64]  # [n, n], from 1; of a sentence with itself 0
    nearest: NDArray[np.int64]  # [n, k], the nearest sentences of each, nearest first


def sample_sentences(texts: Iterable[str], seed: int) -> list[str]:
    """At most `SENTENCES` different sentences, drawn from the first `READ`."""
    distinct = list(dict.fromkeys(islice(texts, READ)))
    if len(distinct) <= SENTENCES:
        return distinct
    drawn = np.random.default_rng(seed).choice(len(distinct), SENTENCES, replace=False)
    return [distinct[i] for i in np.sort(drawn)]


def compare_text(before: Floats, after: Floats, sentences: Sequence[str]) -> TextChanges:
    """Compares two encoders by their vectors [n, d] of n different sentences, at least `FEWEST_SENTENCES`."""
    old, new = _space(before), _space(after)
    n, shown = len(sentences), [_short(sentence) for sentence in sentences]
    upper = np.triu_indices(n, 1)
    first = old.nearest[:, 0]  # [n], the nearest sentence before
    changed = np.flatnonzero(first != new.nearest[:, 0])
    then, now = first[changed], new.nearest[changed, 0]
    # By how much each encoder prefers its nearest sentence to that of the other.
    margins = np.minimum(
        old.cosines[changed, then] - old.cosines[changed, now], new.cosines[changed, now] - new.cosines[changed, then]
    )
    clearest = changed[np.argsort(margins)[::-1][:EXAMPLES]]
    near = _near_pairs(old, new)  # [m, 2]
    moves = np.log(new.numbers[near[:, 0], near[:, 1]] / old.numbers[near[:, 0], near[:, 1]])  # [m], below 0 is closer

    def pairs(order: Iterable[int], places: NDArray[np.int64]) -> tuple[MovedPair, ...]:
        return tuple(_moved(shown, old, new, *places[i]) for i in _of_different_sentences(order, places))

    alike = np.argwhere(np.triu(new.cosines >= DUPLICATE, 1))
    order = np.argsort(moves, kind="stable").tolist()
    return TextChanges(
        sentences=n,
        pairs=len(upper[0]),
        agreement=(correlations(old.cosines[upper], new.cosines[upper]) or (0.0,))[0],
        same_nearest=1 - len(changed) / n,
        same_neighbours=float(np.mean([np.isin(*rows).mean() for rows in zip(old.nearest, new.nearest, strict=True)])),
        new_nearest=tuple(
            NewNearest(sentence=shown[i], before=shown[first[i]], after=shown[new.nearest[i, 0]]) for i in clearest
        ),
        closer=pairs((i for i in order if moves[i] < 0), near),
        apart=pairs((i for i in reversed(order) if moves[i] > 0), near),
        duplicates_before=int((old.cosines[upper] >= DUPLICATE).sum()),
        duplicates_after=len(alike),
        duplicates=pairs(np.argsort(new.numbers[tuple(alike.T)], kind="stable").tolist(), alike),
    )


def _space(vectors: Floats) -> _Space:
    from scipy.spatial.distance import squareform
    from scipy.stats import rankdata

    vectors = unit_length(vectors)
    cosines = np.clip(vectors @ vectors.T, -1, 1)
    n = len(vectors)
    numbers = squareform(rankdata(-cosines[np.triu_indices(n, 1)], "ordinal"))
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, : min(NEIGHBOURS, n - 1)]
    return _Space(cosines, numbers, nearest)


def _near_pairs(*spaces: _Space) -> NDArray[np.int64]:
    """The pairs [m, 2] of each sentence with its nearest sentences under any of the encoders."""
    ends = [
        np.stack(np.broadcast_arrays(np.arange(len(space.nearest))[:, None], space.nearest), -1).reshape(-1, 2)
        for space in spaces
    ]
    near: NDArray[np.int64] = np.unique(np.sort(np.concatenate(ends), 1), axis=0)
    return near


def _of_different_sentences(order: Iterable[int], pairs: NDArray[np.int64]) -> list[int]:
    """The first `EXAMPLES` pairs in this order that share no sentence."""
    chosen: list[int] = []
    taken: set[int] = set()
    for i in order:
        if taken.isdisjoint(pairs[i].tolist()):
            taken.update(pairs[i].tolist())
            chosen.append(i)
            if len(chosen) == EXAMPLES:
                break
    return chosen


def _moved(shown: Sequence[str], old: _Space, new: _Space, i: int, j: int) -> MovedPair:
    return MovedPair(
        first=shown[i],
        second=shown[j],
        number_before=int(old.numbers[i, j]),
        number_after=int(new.numbers[i, j]),
        cosine_before=float(old.cosines[i, j]),
        cosine_after=float(new.cosines[i, j]),
    )


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= LONGEST else sentence[: LONGEST - 4] + " ..."
