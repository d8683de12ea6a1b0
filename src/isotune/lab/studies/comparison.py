"""Differences between the lines of a study's table, with what can be said of each: over seeds, and over test pairs.

Over seeds there are few values, 3 to 8. The paired t-test decides: it is exact if the differences are normal, and it
gives an interval. Tests that assume no normality, such as Wilcoxon's, can't reach the 5 % level at 5 seeds. Where there
are several comparisons, Holm's correction keeps the chance of any false positive at 5 %.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from statistics import fmean

import numpy as np
from scipy import stats

from isotune.evaluation import GROUPS, DevTask, Floats, interval, resampled
from isotune.lab.studies.lines import Line
from isotune.lab.studies.study import Study

LEVEL = 0.05
Values = Callable[[Line, int | None], Mapping[str, Floats]]
"""The values of the rows of each task, by the encoder of a line's run with some seed."""


@dataclass(frozen=True)
class PairedTest:
    """The paired t-test whether differences have mean 0."""

    low: float  # low and high are the ends of the mean's 95 % interval
    high: float
    p: float  # two-sided


@dataclass(frozen=True)
class Comparison:
    """The difference between two lines."""

    first: str  # the title of the first line
    second: str
    difference: (
        float  # the first line's score minus the second's, the mean over the seeds that both have
    )
    n: int  # the number of these seeds; 0 if both lines are untrained
    test: PairedTest | None = None  # the test over seeds, if there are several
    p: float | None = None  # its p after Holm's correction for all comparisons of the study
    # the bootstrap's 95 % interval over test pairs, if the score is a correlation
    pairs: tuple[float, float] | None = None

    @property
    def differs(self) -> bool:
        """Whether the lines differ: by the test over seeds if there are several, or else by the interval over pairs."""
        if self.p is not None:
            return self.p < LEVEL
        return self.pairs is not None and not self.pairs[0] <= 0 <= self.pairs[1]


def compare(
    study: Study, lines: Sequence[Line], tasks: Sequence[DevTask], values: Values
) -> tuple[Comparison, ...]:
    """Makes all comparisons of a study, by the score that it judges by."""
    score, by_name = study.judged, {task.name: task for task in tasks}
    members = study.averages.get(score) or GROUPS.get(score, (score,))
    # Those that make the judged score; none if it is another kind of score, such as an accuracy.
    judged_tasks = [by_name[member] for member in members] if by_name.keys() >= set(members) else []

    @cache
    def samples(line: Line, seed: int | None) -> Floats:
        known, way = values(line, seed), (study.aggregation, study.metric)
        scores = [
            resampled(task, known[task.name], *way, i)[task.name]
            for i, task in enumerate(judged_tasks)
        ]
        return np.asarray(np.mean(scores, axis=0))

    def compared(first: Line, second: Line) -> Comparison | None:
        # The seeds to subtract. The one value of an untrained model is paired with every seed of
        # the other line.
        seeds = [
            (a, b)
            for a in first.values[score]
            for b in second.values[score]
            if a == b or None in (a, b)
        ]
        if not seeds:
            return None
        differences = [first.values[score][a] - second.values[score][b] for a, b in seeds]
        over_pairs = [samples(first, a) - samples(second, b) for a, b in seeds if judged_tasks]
        return Comparison(
            first.title,
            second.title,
            fmean(differences),
            n=0 if seeds == [(None, None)] else len(seeds),
            test=paired_test(differences) if len(seeds) > 1 else None,
            pairs=interval(np.mean(over_pairs, axis=0)) if over_pairs else None,
        )

    comparisons = [
        made
        for lines_of_both in _compared_lines(study, lines)
        if (made := compared(*lines_of_both))
    ]
    corrected = iter(holm([comparison.test.p for comparison in comparisons if comparison.test]))
    return tuple(replace(each, p=next(corrected)) if each.test else each for each in comparisons)


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
    """Corrects k p values for multiple comparisons (Holm, Scandinavian Journal of Statistics, 1979)."""
    order = np.argsort(p_values)
    factors = np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(np.minimum(1, factors * np.asarray(p_values)[order]))
    return [float(p) for p in corrected]


def _compared_lines(study: Study, lines: Sequence[Line]) -> Iterator[tuple[Line, Line]]:
    """The pairs of lines to compare: two arms at the same place in the grid, or two places of a single arm."""
    measured = [line for line in lines if study.judged in line.values and not line.kept_start]
    arms = list(dict.fromkeys(line.arm for line in measured))
    against = {arm.name: arm.against for arm in study.arms if arm.against}
    for earlier, later in combinations(measured, 2):
        small, large = sorted((earlier.cell, later.cell), key=len)
        same_place = bool(study.best) or small.items() <= large.items()
        if against:
            compared = same_place and against.get(later.arm) == earlier.arm
        elif len(arms) == 1:
            compared = study.compare == "all" or earlier is measured[0]
        else:
            compared = (
                same_place
                and earlier.arm != later.arm
                and (study.compare == "all" or earlier.arm == arms[0])
            )
        if compared:
            yield later, earlier
