"""Whether a difference is one: over seeds, over the pairs of a test set, and Williams' test of two correlations.

Over seeds there are few values, 3 to 8. The decision is the paired t-test's: it is exact if the differences are normal,
and it gives an interval. What assumes no normality, the permutation of signs (Wilcoxon's test is the same on ranks),
has at n seeds no p below 2 / 2^n: at 5 seeds 0.0625, so that it can't find anything at the 5 % level, however large.
Its p stands beside the other one. With several comparisons, Holm's correction keeps the chance of any false finding at
5 %.

Over pairs, the bootstrap draws the pairs of the test set anew and scores both encoders on the same draw.
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
CHUNK = 100  # resamples at a time, so that memory is bounded


@dataclass(frozen=True)
class Summary:
    """Some values in short; the deviation is that of a sample, None for one value."""

    mean: float
    deviation: float | None
    least: float
    greatest: float
    n: int


def summary(values: Sequence[float]) -> Summary:
    """Mean, standard deviation (n - 1), least, greatest and number of at least one value."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Summary(float(np.mean(values)), deviation, min(values), max(values), len(values))


@dataclass(frozen=True)
class PairedTest:
    """Differences of n pairs against none.

    Attributes:
        mean: of the differences.
        low, high: the 95 % interval of that mean.
        p: two-sided, of the paired t-test.
        p_exact: two-sided, of all permutations of signs.
        n: how many pairs.
    """

    mean: float
    low: float
    high: float
    p: float
    p_exact: float
    n: int


def paired_test(differences: Sequence[float]) -> PairedTest:
    """Tests whether differences [n], n > 1, have mean 0. Where all are the same, there is nothing to estimate."""
    values = np.asarray(differences, np.float64)
    mean = float(values.mean())
    exact = stats.permutation_test((values,), np.mean, permutation_type="samples", rng=0)
    if np.ptp(values) <= 1e-12 * max(1.0, abs(mean)):
        return PairedTest(mean, mean, mean, float(abs(mean) <= 1e-12), float(exact.pvalue), len(values))
    test = stats.ttest_1samp(values, 0.0)
    low, high = test.confidence_interval(0.95)
    return PairedTest(mean, float(low), float(high), float(test.pvalue), float(exact.pvalue), len(values))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values [k] corrected for there being k of them. Holm, Scandinavian Journal of Statistics, 1979."""
    corrected = [0.0] * len(p_values)
    worst = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = worst
    return corrected


@dataclass(frozen=True)
class Part:
    """Pairs that have one correlation, and its weight in the score: a task, or a subset of one.

    Attributes:
        name: the task's, or the subset's.
        gold: [N] scores.
        cosines: [N] of an encoder.
        weight: the weights of all parts sum to 1.
    """

    name: str
    gold: Floats
    cosines: Floats
    weight: float


def resampled_scores(parts: Sequence[Part], spearman: bool, resamples: int = RESAMPLES) -> Floats:
    """The score of an encoder on draws of the pairs with replacement, [resamples].

    Draw number i has the same pairs for every encoder, so that two encoders' scores can be subtracted. Each part is
    drawn by itself, at its own size. A draw is kept as how often each pair is in it, from which ranks follow by
    summing: pairs are sorted once, and not once a draw.
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
    """Where the middle 95 % of bootstrapped values [resamples] lie."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def williams(r12: float, r13: float, r23: float, n: int) -> tuple[float, float]:
    """Whether two correlations with the same variable differ: t, of n - 3 degrees of freedom, and its two-sided p.

    Williams, JRSS B 1959, in the form of Steiger, Psychological Bulletin 1980, equation 7. Variable 1 is the gold
    score, 2 and 3 are two encoders' cosines; of ranks, which makes the correlations Spearman's, the test is an
    approximation. Of 3 pairs or fewer nothing can be said: t is 0.
    """
    if n < 4:
        return 0.0, 1.0
    determinant = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    mean = (r12 + r13) / 2
    below = 2 * determinant * (n - 1) / (n - 3) + mean**2 * (1 - r23) ** 3
    if r12 == r13 or below <= 0:  # below 0 by rounding only, where 2 and 3 are the same but for rounding
        return 0.0, 1.0
    t = (r12 - r13) * math.sqrt((n - 1) * (1 + r23) / below)
    return t, float(2 * stats.t.sf(abs(t), n - 3))


def williams_of(first: Part, second: Part, spearman: bool) -> float:
    """The p of Williams' test between two encoders' parts with the same pairs; what never varies correlates by 0."""
    pairs = ((first.gold, first.cosines), (first.gold, second.cosines), (first.cosines, second.cosines))
    found = [correlations(*pair) for pair in pairs]
    r12, r13, r23 = (0.0 if both is None else both[0 if spearman else 1] for both in found)
    return williams(r12, r13, r23, len(first.gold))[1]


def _ranks(counts: Floats, values: Floats) -> Floats:
    """The ranks of N values where value i is there counts[:, i] times, [B, N]; equal values share their mean rank."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])  # [N] whether a value is another than the one before
    sizes = np.add.reduceat(counts[:, order], np.flatnonzero(new), axis=1)  # [B, distinct]
    means = np.cumsum(sizes, axis=1) - (sizes - 1) / 2  # [B, distinct] the mean rank of each
    places = np.empty(len(values), np.int64)
    places[order] = np.cumsum(new) - 1  # [N] which of the distinct values it is
    return means[:, places]


def _pearson(counts: Floats, first: Floats, second: Floats) -> Floats:
    """Correlations [B] of N values each, all [B, N], value i there counts[:, i] times; 0 where one is constant."""
    total = counts.sum(1, keepdims=True)
    first, second = (values - (counts * values).sum(1, keepdims=True) / total for values in (first, second))
    products = (counts * first * second).sum(1)
    lengths = np.sqrt((counts * first**2).sum(1) * (counts * second**2).sum(1))
    result: Floats = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return result
