"""The lines of a study's table: every arm at every place in the grid, with its scores."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from isotune.evaluation import Result
from isotune.lab.studies.study import Cell, Published, Study, Value
from isotune.lab.studies.wording import digits, line_title, measured_digits


class MadeRun(Result):
    """A run of a study, with its scores or the reason for its failure.

    Arm, model, seed and cell are those of `PlannedRun`.
    """

    arm: str
    model: str
    seed: int | None
    cell: dict[str, Value]

    run: str
    """The run's key; "" if its model is not on this machine."""

    problem: str = ""
    """Why the run failed; "" if it did not."""

    is_made: bool = True
    """Whether the run was made, or has failed; else no run of its key was begun or ended yet."""

    values: dict[str, float]
    """The value of each score; empty if the run failed or is not made."""


@dataclass(eq=False)
class Line:
    """An arm at one place in the grid."""

    arm: str
    """The arm's name."""

    cell: Cell
    """The place."""

    values: dict[str, dict[int | None, float]] = field(default_factory=dict)
    """The values of each score, by seed."""

    problems: list[str] = field(default_factory=list)
    """Why runs failed."""

    not_made: int = 0
    """How many runs are not made yet."""

    published: Published | None = None
    """What the paper prints there."""

    @property
    def title(self) -> str:
        """Its arm and cell, in words."""
        return line_title(self.arm, self.cell)

    @property
    def kept_start(self) -> bool:
        """Whether every run kept its start, because no step scored better.

        Then nothing was trained to compare.
        """
        steps = self.values.get("kept_step", {}).values()
        return bool(steps) and not any(steps)

    def summary(self, score: str) -> tuple[float, float | None] | None:
        """A score's mean and standard deviation over the seeds; None if no run has it.

        The deviation is that by n - 1. With one seed it is None.
        """
        values = list(self.values.get(score, {}).values())
        if not values:
            return None
        mean = float(np.mean(values))
        if len(values) == 1:
            return mean, None
        return mean, float(np.std(values, ddof=1))

    def measured(self, study: Study, score: str) -> str:
        """Mean and standard deviation of a score as text; "" if no run has it."""
        summary = self.summary(score)
        if summary is None:
            return ""
        mean, deviation = summary
        text = measured_digits(study, score, mean)
        if deviation is None:
            return text
        return f"{text} ± {measured_digits(study, score, deviation)}"

    def printed(self, study: Study, score: str) -> str:
        """The published value and standard deviation as text; "" if the paper prints none."""
        if self.published is None:
            return ""
        texts = []
        for values in (self.published.scores, self.published.deviation):
            if score in values:
                texts.append(digits(study, score, values[score]))
        return " ± ".join(texts)


def means_of(lines: Iterable[Line], score: str) -> dict[Line, float]:
    """The mean of a score over the seeds of each line; lines without the score are left out."""
    means = {}
    for line in lines:
        summary = line.summary(score)
        if summary:
            means[line] = summary[0]
    return means


def highest_line(lines: Iterable[Line], score: str) -> Line | None:
    """The line that alone has the highest mean of a score; None if several have, or none has it."""
    means = means_of(lines, score)
    highest = [line for line, mean in means.items() if mean == max(means.values())]
    if len(highest) != 1:
        return None
    return highest[0]


def table_lines(
    study: Study, runs: Iterable[MadeRun], statistics: Mapping[str, Mapping[str, float]] = {}
) -> list[Line]:
    """The lines of a study's table.

    First come the lines of runs, where all seeds share a line; then those of datasets and their
    sizes; and then those that only the paper has. If the study shows each arm's best cell alone,
    that line tells of the problems of all cells, and of their runs that are not made.
    """
    lines = _lines_of_runs(runs)
    if study.best:
        lines = _best_lines(study.best, lines)
    for name, sizes in statistics.items():
        values: dict[str, dict[int | None, float]] = {
            size: {None: number} for size, number in sizes.items()
        }
        lines.append(Line(name, {}, values=values))
    for published in study.published:
        if not published.analysis:
            _line_beside(study, published, lines).published = published
    return lines


def _lines_of_runs(runs: Iterable[MadeRun]) -> list[Line]:
    by_place: dict[tuple[str, tuple[tuple[str, Value], ...]], Line] = {}
    for run in runs:
        place = (run.arm, tuple(run.cell.items()))
        line = by_place.setdefault(place, Line(run.arm, run.cell))
        if run.problem:
            line.problems.append(run.problem)
        if not run.is_made:
            line.not_made += 1
        for score, value in run.values.items():
            line.values.setdefault(score, {})[run.seed] = value
    return list(by_place.values())


def _best_lines(score: str, lines: Iterable[Line]) -> list[Line]:
    """The line of each arm with the highest mean of a score."""
    by_arm: dict[str, list[Line]] = {}
    for line in lines:
        by_arm.setdefault(line.arm, []).append(line)
    return [_best_line(score, cells) for cells in by_arm.values()]


def _best_line(score: str, cells: Sequence[Line]) -> Line:
    means = means_of(cells, score)
    best = max(means, key=means.__getitem__, default=cells[0])
    best.problems = [problem for line in cells for problem in line.problems]
    best.not_made = sum(line.not_made for line in cells)
    return best


def _line_beside(study: Study, published: Published, lines: list[Line]) -> Line:
    """The line that published numbers belong to; a new line if there is none."""
    for line in lines:
        same_place = study.best or line.cell == published.at
        if line.arm == published.arm and same_place:
            return line
    line = Line(published.arm, published.at)
    lines.append(line)
    return line
