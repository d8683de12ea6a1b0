"""Differences between a study's lines, each with what can be said of it: over seeds, and over pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isotune.evaluation import GROUPS, STSTask
from isotune.lab.studies.statistics import (
    Floats,
    PairedTest,
    Part,
    holm,
    interval,
    paired_test,
    resampled_scores,
    williams_of,
)
from isotune.lab.studies.study import Study
from isotune.lab.studies.words import is_share, printed

if TYPE_CHECKING:
    from isotune.lab.studies.table import Line

LEVEL = 0.05
Rows = NDArray[np.bool_]
Cosines = Callable[["Line", int | None], Mapping[str, Floats]]
"""The cosines of a line's run of a seed, by task."""


@dataclass(frozen=True)
class Comparison:
    """Two lines.

    Attributes:
        first, second: their titles.
        difference: of the first from the second, the mean over the seeds that both have.
        n: how many seeds these are; 0 where both are models as they are.
        test: over the seeds, where there are several.
        p: the test's p, corrected by Holm for all comparisons of the study.
        pairs: the 95 % interval of the difference over draws of the test pairs, where the score is a correlation.
        williams: in how many of how many correlations, a task's or subset's at a seed, Williams' test has p below 0.05.
    """

    first: str
    second: str
    difference: float
    n: int
    test: PairedTest | None = None
    p: float | None = None
    pairs: tuple[float, float] | None = None
    williams: tuple[int, int] | None = None

    @property
    def differs(self) -> bool:
        """Whether there is a difference: over seeds where there are several, or else over pairs."""
        if self.p is not None:
            return self.p < LEVEL
        return self.pairs is not None and not self.pairs[0] <= 0 <= self.pairs[1]


def compare(study: Study, lines: Sequence[Line], tasks: Sequence[STSTask], cosines: Cosines) -> list[Comparison]:
    """All comparisons that the study asks for, by the score that it judges by."""
    shape = _shape(study, tasks)
    drawn: dict[tuple[str, int | None], Floats] = {}

    def parts(line: Line, seed: int | None) -> list[Part]:
        found = cosines(line, seed)
        return [
            Part(name, task.pairs.scores[rows], found[task.name][rows], weight) for name, task, rows, weight in shape
        ]

    def draws(line: Line, seed: int | None) -> Floats:
        key = line.title, seed
        if key not in drawn:
            drawn[key] = resampled_scores(parts(line, seed), study.metric == "spearman")
        return drawn[key]

    result = []
    for first, second in _pairs_of_lines(study, lines):
        values = [line.values[study.judged] for line in (first, second)]
        seeds = list(_shared(*values))
        if not seeds:
            continue
        differences = [values[0][a] - values[1][b] for a, b in seeds]
        test = paired_test(differences) if len(seeds) > 1 else None
        n = 0 if seeds == [(None, None)] else len(seeds)
        found = Comparison(first.title, second.title, fmean(differences), n, test)
        if shape:
            over_pairs = np.mean([draws(first, a) - draws(second, b) for a, b in seeds], axis=0)  # [resamples]
            p_values = [
                williams_of(one, other, study.metric == "spearman")
                for a, b in seeds
                for one, other in zip(parts(first, a), parts(second, b), strict=True)
            ]
            few = sum(p < LEVEL for p in p_values)
            found = replace(found, pairs=interval(over_pairs), williams=(few, len(p_values)))
        result.append(found)
    tested = [found for found in result if found.test]
    corrected = dict(zip(map(id, tested), holm([found.test.p for found in tested if found.test]), strict=True))
    return [replace(found, p=corrected.get(id(found))) for found in result]


def sentence(study: Study, found: Comparison) -> str:
    """What a comparison says."""

    def number(value: float) -> str:
        return printed(study, study.judged, value)

    sign = 1 if found.difference > 0 else -1

    def span(low: float, high: float) -> str:
        ends = sorted((sign * low, sign * high))
        return f"{number(ends[0])} to {number(ends[1])}"

    ahead, behind = (found.first, found.second)[::sign]
    seeds = {0: "", 1: " at one seed"}.get(found.n, f" at {found.n} seeds")
    share = is_share(study, study.judged)
    points = " points" if share and study.scale == 100 else ""
    size = f"{number(abs(found.difference))}{points}"
    if not (found.test or found.pairs):
        return f"{ahead} is {size} ahead of {behind}{seeds}; a single value can't be tested."
    text = f"No difference{seeds} between {ahead} and {behind}: {ahead} is ahead by {size}"
    if found.differs:
        text = f"{ahead} is {size} {'better' if share else 'higher'} than {behind}{seeds}"
    if found.test and found.p is not None:
        corrected = " corrected" if found.p > found.test.p else ""
        text += f" (95 % interval {span(found.test.low, found.test.high)}, p {_p(found.p)}{corrected})"
    if not found.pairs:
        return f"{text}."
    text += f"; over pairs {span(*found.pairs)}"
    if not found.test:
        return f"{text}{', but other seeds were not tried' if found.n else ''}."
    other = found.pairs[0] <= 0 <= found.pairs[1]
    if found.differs and other:
        text += ", so that on other pairs there may be none"
    if not found.differs and not other:
        text += ": these encoders differ, but those of other seeds may not"
    return f"{text}."


def _shape(study: Study, tasks: Sequence[STSTask]) -> list[tuple[str, STSTask, Rows, float]]:
    """The correlations that the judged score is a mean of: name, task, which of its pairs [N], weight.

    There are none where it is something else, such as an accuracy.
    """
    known = {task.name: task for task in tasks}
    members = study.averages.get(study.judged) or GROUPS.get(study.judged, (study.judged,))
    if not known.keys() >= set(members):
        return []
    shape = []
    for task in map(known.__getitem__, members):
        subsets, gold = np.asarray(task.pairs.subsets), task.pairs.scores
        parts = {task.name: np.full(len(gold), True)}
        if study.aggregation != "all":
            parts = {name: subsets == name for name in dict.fromkeys(task.pairs.subsets)}
            parts = {name: rows for name, rows in parts.items() if np.ptp(gold[rows]) > 0}
        sizes = {name: rows.sum() if study.aggregation == "wmean" else 1 for name, rows in parts.items()}
        for name, rows in parts.items():
            shape.append((name, task, rows, float(sizes[name] / sum(sizes.values()) / len(members))))
    return shape


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"= {value:.3f}"


def _pairs_of_lines(study: Study, lines: Sequence[Line]) -> Iterator[tuple[Line, Line]]:
    """The lines to compare: arms at the same place in the grid, or where there is one arm, its places."""
    measured = [line for line in lines if study.judged in line.values]
    arms = list(dict.fromkeys(line.arm for line in measured))
    for one, other in combinations(measured, 2):
        if len(arms) == 1:
            if study.compare == "all" or one is measured[0]:
                yield other, one
        elif one.arm != other.arm and (study.compare == "all" or one.arm == arms[0]):
            shared = one.cell.keys() & other.cell.keys()
            same = all(one.cell[key] == other.cell[key] for key in shared)
            if same and (one.cell.keys() <= other.cell.keys() or other.cell.keys() <= one.cell.keys()):
                yield other, one


def _shared(
    first: Mapping[int | None, float], second: Mapping[int | None, float]
) -> Iterator[tuple[int | None, int | None]]:
    """The seeds to subtract; a model as it is has one value, which goes with every seed of the other's."""
    if None in first or None in second:
        yield from ((a, b) for a in first for b in second)
    else:
        yield from ((seed, seed) for seed in first if seed in second)
