"""How sure a score over pairs is: the bootstrap resamples the pairs, and scores encoders on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 1000
CHUNK = 100  # resamples at a time, which bounds memory


@dataclass(frozen=True)
class CorrelatedPairs:
    """The N pairs of a task or of one of its subsets, over which an encoder's correlation is taken."""

    gold: Floats  # [N] gold scores
    cosines: Floats  # [N] the encoder's cosines
    weight: float  # of the correlation in the score; the weights of a score sum to 1


def resampled_scores(parts: Sequence[CorrelatedPairs], spearman: bool, resamples: int = RESAMPLES) -> Floats:
    """An encoder's scores [resamples] on samples of the pairs, drawn with replacement.

    Sample i has the same pairs for every encoder, so two encoders' scores can be subtracted. Each part is sampled
    separately, at its own size. A sample is stored as the count of each pair. Ranks are sums of counts, so the pairs
    are sorted once and not once a sample.
    """
    scores = np.zeros(resamples)
    for number, part in enumerate(parts):
        generator = np.random.default_rng([number, len(part.gold)])
        shares = np.full(len(part.gold), 1 / len(part.gold))
        for start in range(0, resamples, CHUNK):
            size = min(CHUNK, resamples - start)
            counts = generator.multinomial(len(part.gold), shares, size).astype(np.float64)  # [size, N]
            first, second = (
                _ranks(counts, values) if spearman else np.broadcast_to(values, counts.shape)
                for values in (part.gold, part.cosines)
            )
            scores[start : start + size] += part.weight * _pearson(counts, first, second)
    return scores


def interval(values: Floats) -> tuple[float, float]:
    """The ends of the middle 95 % of bootstrapped values [resamples]."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _ranks(counts: Floats, values: Floats) -> Floats:
    """The ranks [B, N] of N values in B samples that hold value i counts[:, i] times; ties share their mean rank."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])  # [N] whether a value differs from the one before
    sizes = np.add.reduceat(counts[:, order], np.flatnonzero(new), axis=1)  # [B, distinct]
    means = np.cumsum(sizes, axis=1) - (sizes - 1) / 2  # [B, distinct] the mean rank of each
    places = np.empty(len(values), np.int64)
    places[order] = np.cumsum(new) - 1  # [N] which of the distinct values it is
    return means[:, places]


def _pearson(counts: Floats, first: Floats, second: Floats) -> Floats:
    """Pearson's correlations [B] of N values [B, N] that count counts [B, N] times; 0 if one variable is constant."""
    total = counts.sum(1, keepdims=True)
    first, second = (values - (counts * values).sum(1, keepdims=True) / total for values in (first, second))
    products = (counts * first * second).sum(1)
    lengths = np.sqrt((counts * first**2).sum(1) * (counts * second**2).sum(1))
    result: Floats = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return result
