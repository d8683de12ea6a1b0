"""How sure a score is: the bootstrap resamples the rows of a task, and scores all encoders on the same samples."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotune.data import ScoredPairs
from isotune.evaluation.results import Aggregation, Metric
from isotune.evaluation.vectors import Floats

RESAMPLES = 1000
MOST_COUNTS = 1_000_000  # of pairs x resamples at a time, which bounds memory


def resampled_correlations(
    pairs: ScoredPairs,
    cosines: Floats,
    aggregation: Aggregation = "all",
    metric: Metric = "spearman",
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Floats:
    """An encoder's scores [resamples] on samples of N pairs, drawn with replacement, from its cosines [N].

    Sample i has the same pairs for every encoder, so two encoders' scores can be subtracted. Each subset over which a
    correlation is taken is sampled separately, at its own size; one whose gold scores are all equal is left out. A
    sample is stored as the count of each pair. Ranks are sums of counts, so the pairs are sorted once and not once a
    sample.
    """
    parts = [np.full(len(cosines), True)]
    if aggregation != "all":
        subsets = (np.asarray(pairs.subsets) == name for name in dict.fromkeys(pairs.subsets))
        parts = [rows for rows in subsets if np.ptp(pairs.scores[rows]) > 0]
    sizes = np.array([rows.sum() if aggregation == "wmean" else 1 for rows in parts])
    scores = np.zeros(resamples)
    for number, rows in enumerate(parts):
        of_part = pairs.scores[rows], cosines[rows]
        found = []
        for counts in _samples(len(of_part[0]), resamples, (seed, number)):
            first, second = (
                _ranks(counts, values)
                if metric == "spearman"
                else np.broadcast_to(values, counts.shape)
                for values in of_part
            )
            found.append(_pearson(counts, first, second))
        scores += sizes[number] / sizes.sum() * np.concatenate(found)
    return scores


def resampled_means(values: NDArray[Any], seed: int = 0) -> Floats:
    """The means [RESAMPLES, ...] of values [N, ...] over samples of N rows, the same for every encoder."""
    return np.concatenate(
        [counts @ values / len(values) for counts in _samples(len(values), RESAMPLES, (seed, 0))]
    )


def resampled_macro_f1(numbers: Floats, seed: int = 0) -> Floats:
    """The macro F1 [RESAMPLES] of true and predicted class numbers [N, 2], over samples of N rows."""
    true, predicted = (
        column[:, None] == np.unique(numbers) for column in numbers.T
    )  # [N, classes]
    scores = []
    for counts in _samples(len(numbers), RESAMPLES, (seed, 0)):
        all_of_class = counts @ true + counts @ predicted  # [n, classes]
        f1 = 2 * (counts @ (true & predicted)) / np.maximum(all_of_class, 1)
        scores.append(f1.sum(1) / (all_of_class > 0).sum(1))
    return np.concatenate(scores)


def interval(values: Floats) -> tuple[float, float]:
    """The ends of the middle 95 % of bootstrapped values [resamples]."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _samples(size: int, resamples: int, seed: tuple[int, int]) -> Iterator[Floats]:
    """Samples of `size` rows, some at a time: the count of each row [n, size]."""
    generator = np.random.default_rng([*seed, size])
    shares = np.full(size, 1 / size)
    chunk = max(1, MOST_COUNTS // size)
    for start in range(0, resamples, chunk):
        yield generator.multinomial(size, shares, min(chunk, resamples - start)).astype(np.float64)


def _ranks(counts: Floats, values: Floats) -> Floats:
    """The ranks [B, N] of N values in B samples that hold value i counts[:, i] times; ties share their mean rank."""
    _, places, often = np.unique(
        values, return_inverse=True, return_counts=True
    )  # places: [N], often: [distinct]
    order = np.argsort(places, kind="stable")
    sizes = np.add.reduceat(counts[:, order], np.cumsum(often) - often, axis=1)  # [B, distinct]
    means = np.cumsum(sizes, axis=1) - (sizes - 1) / 2  # [B, distinct] the mean rank of each
    return means[:, places]


def _pearson(counts: Floats, first: Floats, second: Floats) -> Floats:
    """Pearson's correlations [B] of N values [B, N] that count counts [B, N] times; 0 if one variable is constant."""
    total = counts.sum(1, keepdims=True)
    first, second = (
        values - (counts * values).sum(1, keepdims=True) / total for values in (first, second)
    )
    products = (counts * first * second).sum(1)
    lengths = np.sqrt((counts * first**2).sum(1) * (counts * second**2).sum(1))
    return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
