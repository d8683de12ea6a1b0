"""Differences between the lines of a study's table, over seeds and over test pairs.

Over seeds there are few values, 3 to 8. The paired t-test decides: it is exact if the differences
are normal, and it gives an interval. Tests that assume no normality, such as Wilcoxon's, can't
reach the 5 % level at 5 seeds. Where there are several comparisons, Holm's correction keeps the
chance of any false positive at 5 %.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations, product
from statistics import fmean

import numpy as np
from scipy import stats

from isotune.evaluation import GROUPS, DevTask, Floats, interval
from isotune.lab.studies.lines import Line
from isotune.lab.studies.study import Study

LEVEL = 0.05
Values = Callable[[Line, int | None], Mapping[str, Floats]]
"""The values of the rows of each task, by the encoder of a line's run with some seed."""


@dataclass(frozen=True)
class PairedTest:
    """The paired t-test whether differences have mean 0."""

    low: float
    """The lower end of the mean's 95 % interval."""

    high: float
    """The upper end of this interval."""

    p: float
    """The two-sided p."""


@dataclass(frozen=True)
class Comparison:
    """The difference between two lines."""

    first: str
    """The title of the first line."""

    second: str
    """The title of the second line."""

    difference: float
    """The first line's score minus the second's, the mean over the seeds that both have."""

    n: int
    """The number of these seeds; 0 if both lines are untrained."""

    test: PairedTest | None = None
    """The test over seeds, if there are several."""

    p: float | None = None
    """The test's p after Holm's correction for all comparisons of the study."""

    pairs: tuple[float, float] | None = None
    """The bootstrap's 95 % interval over test pairs, if the score is a correlation."""

    @property
    def ahead(self) -> str:
        """The title of the line with the higher score; of equal ones, the first."""
        return self.second if self.difference < 0 else self.first

    @property
    def behind(self) -> str:
        """The title of the other line."""
        return self.first if self.difference < 0 else self.second

    def rival_of(self, title: str) -> str:
        """The title of the line that is compared with the line of this title; "" if none is."""
        rivals = {self.first: self.second, self.second: self.first}
        return rivals.get(title, "")

    @property
    def differs(self) -> bool:
        """Whether the lines differ.

        If there are several seeds, the test over seeds decides, or else the interval over pairs.
        """
        if self.p is not None:
            return self.p < LEVEL
        return self.pairs is not None and not self.pairs[0] <= 0 <= self.pairs[1]


def compare(
    study: Study, lines: Sequence[Line], tasks: Sequence[DevTask], values: Values
) -> tuple[Comparison, ...]:
    """Makes all comparisons of a study, by the score that it judges by."""
    judged_tasks = _judged_tasks(study, tasks)
    samples = None
    if judged_tasks:
        samples = cache(partial(_samples, study, judged_tasks, values))
    comparisons = []
    for first, second in _compared_lines(study, lines):
        comparison = _compared(study.judged, first, second, samples)
        if comparison:
            comparisons.append(comparison)
    return _corrected(comparisons)


def _corrected(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The comparisons, with the corrected p of those that are tested over seeds."""
    tests = [comparison.test for comparison in comparisons if comparison.test]
    p_values = iter(holm([test.p for test in tests]))
    corrected = []
    for comparison in comparisons:
        if comparison.test:
            comparison = replace(comparison, p=next(p_values))
        corrected.append(comparison)
    return tuple(corrected)


def _judged_tasks(study: Study, tasks: Sequence[DevTask]) -> list[DevTask]:
    """The tasks that make the judged score; none if it is another score, such as an accuracy."""
    score = study.judged
    members = study.averages.get(score) or GROUPS.get(score, (score,))
    by_name = {task.name: task for task in tasks}
    if not by_name.keys() >= set(members):
        return []
    return [by_name[member] for member in members]


def _samples(
    study: Study, tasks: Sequence[DevTask], values: Values, line: Line, seed: int | None
) -> Floats:
    """The mean score [resamples] of a line's encoder over tasks, on samples of the tasks' rows."""
    row_values = values(line, seed)
    scores = []
    for number, task in enumerate(tasks):
        of_task = task.resampled(
            row_values[task.name], study.aggregation, study.metric, seed=number
        )
        scores.append(of_task[task.name])
    return np.asarray(np.mean(scores, axis=0))


def _compared(
    score: str, first: Line, second: Line, samples: Callable[[Line, int | None], Floats] | None
) -> Comparison | None:
    """Compares two lines by a score; None if they have no seed in common."""
    seeds = _paired_seeds(first.values[score], second.values[score])
    if not seeds:
        return None
    differences = []
    over_pairs = []
    for a, b in seeds:
        differences.append(first.values[score][a] - second.values[score][b])
        if samples:
            over_pairs.append(samples(first, a) - samples(second, b))
    test = None
    if len(differences) > 1:
        test = paired_test(differences)
    pairs = None
    if over_pairs:
        pairs = interval(np.mean(over_pairs, axis=0))
    return Comparison(
        first=first.title,
        second=second.title,
        difference=fmean(differences),
        n=0 if seeds == [(None, None)] else len(seeds),
        test=test,
        pairs=pairs,
    )


def _paired_seeds(
    first: Iterable[int | None], second: Iterable[int | None]
) -> list[tuple[int | None, int | None]]:
    """The seeds of two lines whose values are subtracted.

    The one value of an untrained model, whose seed is None, is paired with every seed of the other
    line.
    """
    pairs = []
    for a, b in product(first, second):
        if a == b or None in (a, b):
            pairs.append((a, b))
    return pairs


def paired_test(differences: Sequence[float]) -> PairedTest:
    """Tests whether differences [n], n > 1, have mean 0.

    Equal differences have no variance to test by: p is 1 or 0.
    """
    values = np.asarray(differences, np.float64)
    mean = float(values.mean())
    if np.ptp(values) <= 1e-12 * max(1.0, abs(mean)):
        return PairedTest(mean, mean, float(abs(mean) <= 1e-12))
    test = stats.ttest_1samp(values, 0.0)
    low, high = test.confidence_interval(0.95)
    return PairedTest(float(low), float(high), float(test.pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrects k p values for multiple comparisons.

    The method is that of Holm, Scandinavian Journal of Statistics, 1979.
    """
    order = np.argsort(p_values)
    factors = np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(np.minimum(1, factors * np.asarray(p_values)[order]))
    return [float(p) for p in corrected]


def _compared_lines(study: Study, lines: Sequence[Line]) -> Iterator[tuple[Line, Line]]:
    """The pairs of lines to compare, the later line of the table first.

    These are two arms at the same place in the grid, or two places of a single arm.
    """
    measured = [line for line in lines if study.judged in line.values and not line.kept_start]
    is_single_arm = len({line.arm for line in measured}) == 1
    for earlier, later in combinations(measured, 2):
        if is_single_arm and not study.rivals:
            is_compared = study.compare == "all" or earlier is measured[0]
        else:
            are_rivals = _are_rivals(study, measured[0].arm, earlier.arm, later.arm)
            is_compared = are_rivals and _at_same_place(study, earlier, later)
        if is_compared:
            yield later, earlier


def _are_rivals(study: Study, first: str, earlier: str, later: str) -> bool:
    """Whether a study compares two arms, of which one is earlier; `first` is the first of all."""
    if study.rivals:
        return study.rivals.get(later) == earlier
    if study.compare == "all" or study.added.intersection((earlier, later)):
        return earlier != later
    return earlier == first != later


def _at_same_place(study: Study, first: Line, second: Line) -> bool:
    """Whether the options that both lines have are the same. The best cells of arms always are."""
    if study.best:
        return True
    small, large = sorted((first.cell, second.cell), key=len)
    return small.items() <= large.items()
