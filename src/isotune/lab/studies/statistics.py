"""Whether a difference is real: tests over seeds, and Williams' test over test pairs.

Over seeds there are few values, 3 to 8. The paired t-test decides: it is exact if the differences are normal, and it
gives an interval. The sign permutation test (Wilcoxon's test is the same on ranks) assumes no normality, but at n seeds
its p is never below 2 / 2^n. At 5 seeds that is 0.0625, so it can never reach the 5 % level. Its p is printed beside
the t-test's. With several comparisons, Holm's correction keeps the chance of any false positive at 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from isotune.evaluation import CorrelatedPairs


class Summary(NamedTuple):
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
    """The test whether paired differences have mean 0."""

    low: float  # low and high are the ends of the mean's 95 % interval
    high: float
    p: float  # two-sided, of the paired t-test
    p_exact: float  # two-sided, of the sign permutation test


def paired_test(differences: Sequence[float]) -> PairedTest:
    """Tests whether differences [n], n > 1, have mean 0. Equal differences have no variance to test by: p is 1 or 0."""
    values = np.asarray(differences, np.float64)
    mean = float(values.mean())
    exact = float(stats.permutation_test((values,), np.mean, permutation_type="samples", rng=0).pvalue)
    if np.ptp(values) <= 1e-12 * max(1.0, abs(mean)):
        return PairedTest(mean, mean, float(abs(mean) <= 1e-12), exact)
    test = stats.ttest_1samp(values, 0.0)
    low, high = test.confidence_interval(0.95)
    return PairedTest(float(low), float(high), float(test.pvalue), exact)


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrects k p values for multiple comparisons (Holm, Scandinavian Journal of Statistics, 1979)."""
    order = np.argsort(p_values)
    factors = np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(np.minimum(1, factors * np.asarray(p_values)[order]))
    return [float(p) for p in corrected]


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
    variables = np.stack([first.gold, first.cosines, second.cosines])  # [3, N]
    with np.errstate(invalid="ignore", divide="ignore"):  # of a constant variable
        correlations = np.corrcoef(stats.rankdata(variables, axis=1) if spearman else variables)  # [3, 3]
    r12, r13, r23 = np.nan_to_num(correlations[np.triu_indices(3, 1)])
    return williams(r12, r13, r23, len(first.gold))[1]
