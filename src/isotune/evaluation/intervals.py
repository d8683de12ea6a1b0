"""How sure a score is, by the bootstrap.

The rows of a task are resampled, and all encoders are scored on the same samples.

Rows of a group are copies of each other: they are drawn together, so that copies make no score
surer.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotune.data import ScoredPairs
from isotune.evaluation.copies import Groups
from isotune.evaluation.results import Aggregation, Metric
from isotune.evaluation.vectors import Floats

RESAMPLES = 1000

MOST_COUNTS = 1_000_000
"""The product of rows and resamples that are held at a time, which bounds the memory."""


class WithoutRows:
    """A task whose score is not over rows, so that no rows can be drawn again."""

    def resampled(
        self,
        values: Floats,
        aggregation: Aggregation = "all",
        metric: Metric = "spearman",
        seed: int = 0,
    ) -> dict[str, Floats]:
        """No scores."""
        return {}


def resampled_correlations(
    pairs: ScoredPairs,
    cosines: Floats,
    aggregation: Aggregation = "all",
    metric: Metric = "spearman",
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    groups: Groups | None = None,
) -> Floats:
    """An encoder's scores [resamples] on samples of N pairs, from its cosines [N].

    The pairs are drawn with replacement.

    Sample i has the same pairs for every encoder, so two encoders' scores can be subtracted. Each
    subset over which a correlation is taken is sampled separately, at its own size; one whose gold
    scores are all equal is left out. A sample is stored as the count of each pair. Ranks are sums
    of counts, so the pairs are sorted once and not once a sample.
    """
    subsets = _subsets(pairs, aggregation)
    sizes = np.ones(len(subsets))
    if aggregation == "wmean":
        sizes = np.array([rows.sum() for rows in subsets])
    scores = np.zeros(resamples)
    for number, rows in enumerate(subsets):
        gold = pairs.scores[rows]
        cosines_of_subset = cosines[rows]
        groups_of_subset = _numbered_anew(groups, rows)
        blocks = []
        for counts in _samples(len(gold), resamples, (seed, number), groups_of_subset):
            first: Floats = np.broadcast_to(gold, counts.shape)
            second: Floats = np.broadcast_to(cosines_of_subset, counts.shape)
            if metric == "spearman":
                first = _ranks(counts, gold)
                second = _ranks(counts, cosines_of_subset)
            blocks.append(_pearson(counts, first, second))
        scores += sizes[number] / sizes.sum() * np.concatenate(blocks)
    return scores


def _subsets(pairs: ScoredPairs, aggregation: Aggregation) -> list[NDArray[np.bool_]]:
    """The rows [N] of each subset over which a correlation is taken.

    These are all subsets together, or each one with different gold scores.
    """
    if aggregation == "all":
        return [np.full(len(pairs.scores), True)]
    names = np.asarray(pairs.subsets)
    subsets = [names == name for name in dict.fromkeys(pairs.subsets)]
    return [rows for rows in subsets if np.ptp(pairs.scores[rows]) > 0]


def _numbered_anew(groups: Groups | None, rows: NDArray[np.bool_]) -> Groups | None:
    """The groups of some rows [N], with numbers from 0 that leave none out."""
    if groups is None:
        return None
    _, numbers = np.unique(groups[rows], return_inverse=True)
    return numbers


def resampled_over_sentences(
    first: Floats, second: Floats, ends: NDArray[np.int64], sentences: int, seed: int = 0
) -> Floats:
    """Spearman's correlations [RESAMPLES] of two values [N] of pairs, on samples of the sentences.

    `ends` [N, 2] has the numbers of the two sentences of each pair. A pair counts as often as both
    of its sentences were drawn together, which is the product of their counts (Owen and Eckles,
    2012, "Bootstrapping data arrays of arbitrary order", section 3). So pairs that share a sentence
    don't count as independent.
    """
    blocks = []
    for counts in _samples(sentences, RESAMPLES, (seed, 0)):
        of_pairs = counts[:, ends[:, 0]] * counts[:, ends[:, 1]]  # [n, N]
        blocks.append(_pearson(of_pairs, _ranks(of_pairs, first), _ranks(of_pairs, second)))
    return np.concatenate(blocks)


def resampled_means(values: NDArray[Any], seed: int = 0, groups: Groups | None = None) -> Floats:
    """The means [RESAMPLES, ...] of values [N, ...] over samples of N rows.

    The samples are the same for every encoder.
    """
    blocks = []
    for counts in _samples(len(values), RESAMPLES, (seed, 0), groups):
        sums = counts @ values  # [n, ...]
        drawn = counts.sum(1).reshape(-1, *[1] * (sums.ndim - 1))  # [n, 1 ...]
        blocks.append(sums / drawn)
    return np.concatenate(blocks)


def resampled_macro_f1(numbers: Floats, seed: int = 0, groups: Groups | None = None) -> Floats:
    """The macro F1 [RESAMPLES] of true and predicted classes [N, 2], over samples of N rows."""
    classes = np.unique(numbers)
    true = numbers[:, :1] == classes  # [N, classes]
    predicted = numbers[:, 1:] == classes  # [N, classes]
    blocks = []
    for counts in _samples(len(numbers), RESAMPLES, (seed, 0), groups):
        all_of_class = counts @ true + counts @ predicted  # [n, classes]
        f1 = 2 * (counts @ (true & predicted)) / np.maximum(all_of_class, 1)
        blocks.append(f1.sum(1) / (all_of_class > 0).sum(1))
    return np.concatenate(blocks)


def interval(values: Floats) -> tuple[float, float]:
    """The ends of the middle 95 % of bootstrapped values [resamples]."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _samples(
    rows: int, resamples: int, seed: tuple[int, int], groups: Groups | None = None
) -> Iterator[Floats]:
    """Samples of N rows, some at a time: the count of each row [n, N].

    As many groups are drawn as there are.
    """
    size = rows
    if groups is not None:
        size = int(groups.max()) + 1
    generator = np.random.default_rng([*seed, size])
    shares = np.full(size, 1 / size)
    chunk = max(1, MOST_COUNTS // rows)
    for start in range(0, resamples, chunk):
        drawn = generator.multinomial(size, shares, min(chunk, resamples - start))
        counts = drawn.astype(np.float64)
        if groups is not None:
            counts = counts[:, groups]
        yield counts


def _ranks(counts: Floats, values: Floats) -> Floats:
    """The ranks [B, N] of N values in B samples that hold value i counts[:, i] times.

    Ties share their mean rank.
    """
    # `places` is [N], and `repeats` is [distinct].
    _, places, repeats = np.unique(values, return_inverse=True, return_counts=True)
    order = np.argsort(places, kind="stable")
    starts = np.cumsum(repeats) - repeats
    sizes = np.add.reduceat(counts[:, order], starts, axis=1)  # [B, distinct]
    # The mean rank of each distinct value.
    means = np.cumsum(sizes, axis=1) - (sizes - 1) / 2  # [B, distinct]
    return means[:, places]


def _pearson(counts: Floats, first: Floats, second: Floats) -> Floats:
    """Pearson's correlations [B] of N values [B, N] that count counts [B, N] times.

    It is 0 if one variable is constant.
    """
    total = counts.sum(1, keepdims=True)
    first = first - (counts * first).sum(1, keepdims=True) / total
    second = second - (counts * second).sum(1, keepdims=True) / total
    products = (counts * first * second).sum(1)
    lengths = np.sqrt((counts * first**2).sum(1) * (counts * second**2).sum(1))
    return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
