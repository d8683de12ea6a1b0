"""Whether a difference between encoders of several seeds is real.

Over seeds there are few values, 3 to 8. The paired t-test decides: it is exact if the differences are normal, and it
gives an interval. The sign permutation test (Wilcoxon's test is the same on ranks) assumes no normality, but at n seeds
its p is never below 2 / 2^n. At 5 seeds that is 0.0625, so it can never reach the 5 % level. Its p is printed beside
the t-test's. With several comparisons, Holm's correction keeps the chance of any false positive at 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats


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
