"""The lines of a study's table: every arm at every place in the grid, with its scores over the seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from isotune.evaluation import Result
from isotune.lab.studies.study import Cell, Published, Study, Value
from isotune.lab.studies.wording import digits, line_title, measured_digits


class MadeRun(Result):
    """A run of a study, with its scores or the reason for its failure."""

    arm: str  # arm, model, seed and cell are those of `PlannedRun`
    model: str
    seed: int | None
    cell: dict[str, Value]
    run: str  # its key; "" if its model is not on this machine
    problem: str = ""  # why it failed; "" if it did not
    values: dict[str, float]  # score -> value; empty if it failed


@dataclass(eq=False)
class Line:
    """An arm at one place in the grid."""

    arm: str  # its name
    cell: Cell  # the place
    values: dict[str, dict[int | None, float]] = field(
        default_factory=dict
    )  # score -> seed -> value
    problems: list[str] = field(default_factory=list)  # why runs failed
    published: Published | None = None  # what the paper prints there

    @property
    def title(self) -> str:
        """Its arm and cell, in words."""
        return line_title(self.arm, self.cell)

    @property
    def kept_start(self) -> bool:
        """Whether every run kept its start, because no step scored better: then nothing was trained to compare."""
        steps = self.values.get("kept_step", {}).values()
        return bool(steps) and not any(steps)

    def summary(self, score: str) -> tuple[float, float | None] | None:
        """A score's mean and standard deviation (by n - 1; None of one seed) over the seeds;

        None if no run has it.
        """
        values = list(self.values.get(score, {}).values())
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return (float(np.mean(values)), deviation) if values else None

    def measured(self, study: Study, score: str) -> str:
        """Mean and standard deviation of a score as text; "" if no run has it."""
        values = [value for value in self.summary(score) or () if value is not None]
        return " ± ".join(measured_digits(study, score, value) for value in values)

    def printed(self, study: Study, score: str) -> str:
        """The published value and standard deviation as text; "" if the paper prints none."""
        both = [self.published.scores, self.published.deviation] if self.published else []
        return " ± ".join(digits(study, score, values[score]) for values in both if score in values)


def table_lines(
    study: Study, runs: Iterable[MadeRun], statistics: Mapping[str, Mapping[str, float]] = {}
) -> list[Line]:
    """The lines of runs (seeds share one), those of datasets and their sizes, then those that only the paper has.

    If the study shows each arm's best cell alone, that line tells of the problems of all cells.
    """
    by_place: dict[tuple[str, tuple[tuple[str, Value], ...]], Line] = {}
    for run in runs:
        line = by_place.setdefault((run.arm, tuple(run.cell.items())), Line(run.arm, run.cell))
        line.problems += [run.problem] if run.problem else []
        for score, value in run.values.items():
            line.values.setdefault(score, {})[run.seed] = value
    lines = list(by_place.values())
    if study.best:
        arms = dict.fromkeys(line.arm for line in lines)
        lines = [
            _best_line(study.best, [line for line in lines if line.arm == arm]) for arm in arms
        ]
    for name, sizes in statistics.items():
        lines.append(
            Line(name, {}, values={size: {None: number} for size, number in sizes.items()})
        )
    for published in study.published:
        if published.analysis:
            continue
        beside = next(
            (
                line
                for line in lines
                if line.arm == published.arm and (study.best or line.cell == published.at)
            ),
            None,
        )
        if beside is None:
            lines.append(beside := Line(published.arm, published.at))
        beside.published = published
    return lines


def _best_line(score: str, cells: Sequence[Line]) -> Line:
    means = [(line.summary(score) or (-inf,))[0] for line in cells]
    best = cells[means.index(max(means))]
    best.problems = [problem for line in cells for problem in line.problems]
    return best
