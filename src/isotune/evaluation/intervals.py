"""How sure a score is: the bootstrap resamples the rows of a task, and scores all encoders on the same samples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotune.data import ScoredPairs
from isotune.evaluation.results import Aggregation, Metric
from isotune.evaluation.vectors import Floats

RESAMPLES = 1000
MOST_COUNTS = 1_000_000  # of pairs x resamples at a time, which bounds memory


@dataclass(frozen=True, eq=False)
class CorrelatedPairs:
    """The N pairs of a task or of one of its subsets, over which an encoder's correlation is taken."""

    gold: Floats  # [N] gold scores
    cosines: Floats  # [N] the encoder's cosines
    weight: float  # of the correlation in the score; the weights of a score sum to 1


def correlated_pairs(pairs: ScoredPairs, cosines: Floats, aggregation: Aggregation = "all") -> list[CorrelatedPairs]:
    """The parts of a task's correlation: all of its pairs, or each subset whose gold scores differ."""
    if aggregation == "all":
        return [CorrelatedPairs(pairs.scores, cosines, 1.0)]
    subsets = [np.asarray(pairs.subsets) == name for name in dict.fromkeys(pairs.subsets)]
    subsets = [rows for rows in subsets if np.ptp(pairs.scores[rows]) > 0]
    sizes = np.array([rows.sum() if aggregation == "wmean" else 1 for rows in subsets])
    weights = (sizes / sizes.sum()).tolist()
    return [
        CorrelatedPairs(pairs.scores[rows], cosines[rows], weight)
        for rows, weight in zip(subsets, weights, strict=True)
    ]


def resampled_correlations(
    parts: Sequence[CorrelatedPairs], metric: Metric, resamples: int = RESAMPLES, seed: int = 0
) -> Floats:
    """An encoder's scores [resamples] on samples of the pairs, drawn with replacement.

    Sample i has the same pairs for every encoder, so two encoders' scores can be subtracted. Each part is sampled
    separately, at its own size. A sample is stored as the count of each pair. Ranks are sums of counts, so the pairs
    are sorted once and not once a sample.
    """
    scores = np.zeros(resamples)
    for number, part in enumerate(parts):
        for places, counts in _samples(len(part.gold), resamples, (seed, number)):
            first, second = (
                _ranks(counts, values) if metric == "spearman" else np.broadcast_to(values, counts.shape)
                for values in (part.gold, part.cosines)
            )
            scores[places] += part.weight * _pearson(counts, first, second)
    return scores


def resampled_means(values: NDArray[Any], seed: int = 0) -> Floats:
    """The means [RESAMPLES, ...] of values [N, ...] over samples of N rows, the same for every encoder."""
    means = np.zeros((RESAMPLES, *values.shape[1:]))
    for places, counts in _samples(len(values), RESAMPLES, (seed, 0)):
        means[places] = counts @ values / len(values)
    return means


def interval(values: Floats) -> tuple[float, float]:
    """The ends of the middle 95 % of bootstrapped values [resamples]."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _samples(size: int, resamples: int, seed: tuple[int, int]) -> Iterator[tuple[slice, Floats]]:
    """Samples of `size` rows, some at a time: their places among all samples, and the count of each row [n, size]."""
    generator = np.random.default_rng([*seed, size])
    shares = np.full(size, 1 / size)
    chunk = max(1, MOST_COUNTS // size)
    for start in range(0, resamples, chunk):
        end = min(start + chunk, resamples)
        yield slice(start, end), generator.multinomial(size, shares, end - start).astype(np.float64)


def _ranks(counts: Floats, values: Floats) -> Floats:
    """The ranks [B, N] of N values in B samples that hold value i counts[:, i] times; ties share their mean rank."""
    _, places, often = np.unique(values, return_inverse=True, return_counts=True)  # places: [N], often: [distinct]
    order = np.argsort(places, kind="stable")
    sizes = np.add.reduceat(counts[:, order], np.cumsum(often) - often, axis=1)  # [B, distinct]
    means = np.cumsum(sizes, axis=1) - (sizes - 1) / 2  # [B, distinct] the mean rank of each
    return means[:, places]


def _pearson(counts: Floats, first: Floats, second: Floats) -> Floats:
    """Pearson's correlations [B] of N values [B, N] that count counts [B, N] times; 0 if one variable is constant."""
    total = counts.sum(1, keepdims=True)
    first, second = (values - (counts * values).sum(1, keepdims=True) / total for values in (first, second))
    products = (counts * first * second).sum(1)
    lengths = np.sqrt((counts * first**2).sum(1) * (counts * second**2).sum(1))
    result: Floats = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return result
