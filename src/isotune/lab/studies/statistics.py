"""Whether a difference is real: tests over seeds, the bootstrap over test pairs, and Williams' test.

Over seeds there are few values, 3 to 8. The paired t-test decides: it is exact if the differences are normal, and it
gives an interval. The sign permutation test (Wilcoxon's test is the same on ranks) assumes no normality, but at n seeds
its p is never below 2 / 2^n. At 5 seeds that is 0.0625, so it can never reach the 5 % level. Its p is printed beside
the t-test's. With several comparisons, Holm's correction keeps the chance of any false positive at 5 %.

Over pairs, the bootstrap resamples the pairs of the test set and scores both encoders on the same sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from isotune.evaluation.sts import correlations

Floats = NDArray[np.float64]

RESAMPLES = 1000
CHUNK = 100  # resamples at a time, which bounds memory


@dataclass(frozen=True)
class Summary:
    """A summary of n values; the standard deviation (divided by n - 1) is None for a single value."""

    mean: float
    deviation: float | None
    least: float
    greatest: float
    n: int


def summary(values: Sequence[float]) -> Summary:
    """Summarises one or more values."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Summary(float(np.mean(values)), deviation, min(values), max(values), len(values))


@dataclass(frozen=True)
class PairedTest:
    """The test whether n paired differences have mean 0."""

    mean: float  # the mean difference
    low: float  # low and high are the ends of its 95 % interval
    high: float
    p: float  # two-sided, of the paired t-test
    p_exact: float  # two-sided, of the sign permutation test
    n: int  # the number of pairs


def paired_test(differences: Sequence[float]) -> PairedTest:
    """Tests whether differences [n], n > 1, have mean 0. Equal differences have no variance to test by: p is 1 or 0."""
    values = np.asarray(differences, np.float64)
    mean = float(values.mean())
    exact = stats.permutation_test((values,), np.mean, permutation_type="samples", rng=0)
    if np.ptp(values) <= 1e-12 * max(1.0, abs(mean)):
        return PairedTest(mean, mean, mean, float(abs(mean) <= 1e-12), float(exact.pvalue), len(values))
    test = stats.ttest_1samp(values, 0.0)
    low, high = test.confidence_interval(0.95)
    return PairedTest(mean, float(low), float(high), float(test.pvalue), float(exact.pvalue), len(values))


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrects k p values for multiple comparisons (Holm, Scandinavian Journal of Statistics, 1979)."""
    corrected = [0.0] * len(p_values)
    worst = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = worst
    return corrected


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


def williams(r12: float, r13: float, r23: float, n: int) -> tuple[float, float]:
    """Williams' test whether two correlations with the same variable differ: t, and its two-sided p.

    Williams, JRSS B 1959, in the form of Steiger, Psychological Bulletin 1980, equation 7; t has n - 3 degrees of
    freedom. Variable 1 is the gold score, 2 and 3 are two encoders' cosines. For Spearman's correlations the test is an
    approximation. With 3 pairs or fewer nothing can be said: t is 0 and p is 1.
    """
    if n < 4:
        return 0.0, 1.0
    determinant = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    mean = (r12 + r13) / 2
    denominator = 2 * determinant * (n - 1) / (n - 3) + mean**2 * (1 - r23) ** 3
    if r12 == r13 or denominator <= 0:  # negative only by rounding, when variables 2 and 3 are equal but for rounding
        return 0.0, 1.0
    t = (r12 - r13) * math.sqrt((n - 1) * (1 + r23) / denominator)
    return t, float(2 * stats.t.sf(abs(t), n - 3))


def williams_p(first: CorrelatedPairs, second: CorrelatedPairs, spearman: bool) -> float:
    """The p of Williams' test between two encoders on the same pairs; a constant variable has correlation 0."""
    variables = ((first.gold, first.cosines), (first.gold, second.cosines), (first.cosines, second.cosines))
    both = [correlations(*pair) for pair in variables]  # Spearman and Pearson, or None
    r12, r13, r23 = (0.0 if values is None else values[0 if spearman else 1] for values in both)
    return williams(r12, r13, r23, len(first.gold))[1]


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
