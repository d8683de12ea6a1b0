"""A study's figures, made of the lines of its table: curves with a band, bars and points.

Published values are drawn beside the measured ones. Scores have the scale of the study's table.
"""

from collections.abc import Mapping, Sequence
from math import nan
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from isotune.lab.studies import wording
from isotune.lab.studies.findings import is_untrained
from isotune.lab.studies.lines import Line, means_of
from isotune.lab.studies.study import START, Figure, Study, Value
from isotune.report import (
    BLUE,
    INK,
    RING,
    VERMILION,
    legend_below,
    look,
    names_down,
    panels,
    styled,
)

LETTER = 0.075
"""The inches of a letter in an axis's names."""

BAND_OPACITY = 0.18


@styled
def draw(study: Study, figure: Figure, lines: Sequence[Line]) -> Drawing | None:
    """Draws curves or bars of a study; None if the lines have nothing to draw."""
    if figure.kind == "curve":
        return _draw_curves(study, figure, lines)
    if figure.kind == "points":
        return _draw_points(study, figure, lines)
    return _draw_bars(study, figure.y, lines)


class Matrix(NamedTuple):
    """A table of the lines that differ in an option with pairs of values alone."""

    name: str
    """What the lines share: their arm, and the rest of their place in the grid."""

    columns: Sequence[str]
    """The second values, in words."""

    rows: Mapping[str, Sequence[Line | None]]
    """For each first value, in words, the line of each column; None if there is none."""


def matrices(figure: Figure, lines: Sequence[Line]) -> list[Matrix]:
    """The matrices of a figure: one for each arm and each place in the rest of the grid."""
    made = []
    for name, group in _curves(figure, lines).items():
        cells = {}
        for line in group:
            if figure.x in line.cell:
                first, second = cast(tuple[Value, Value], line.cell[figure.x])
                cells[wording.value_text(first), wording.value_text(second)] = line
        columns = list(dict.fromkeys(second for _, second in cells))
        rows = {}
        for first, _ in cells:
            rows[first] = [cells.get((first, second)) for second in columns]
        if rows:
            made.append(Matrix(name, columns, rows))
    return made


def title(figure: Figure) -> str:
    """What a figure shows, in words."""
    score = wording.score_title(figure.y)
    if not figure.x:
        return score
    return f"{score} by {wording.value_text(figure.x)}"


def finding(study: Study, figure: Figure, lines: Sequence[Line]) -> str:
    """Where the score that a figure shows is highest, in words.

    If nothing is measured, this is the figure's title.
    """
    means = {line.title: mean for line, mean in means_of(lines, figure.y).items()}
    if not means:
        return title(figure)
    printed = {name: wording.measured_digits(study, figure.y, mean) for name, mean in means.items()}
    highest = wording.measured_digits(study, figure.y, max(means.values()))
    if len(printed) > 1 and set(printed.values()) == {highest}:
        if is_untrained(lines):
            return f"{title(figure)}: no arm is better than the start, {highest}"
        return f"{title(figure)}: the same with all, {highest}"
    best = " and ".join(name for name, digits in printed.items() if digits == highest)
    return f"{title(figure)}: highest with {best}, {highest}"


class _Axis:
    """The horizontal axis of curves: the values of an option, and where each of them is."""

    def __init__(self, option: str, lines: Sequence[Line]) -> None:
        self.option = option
        having = [line for line in lines if option in line.cell]
        self.values = list(dict.fromkeys(line.cell[option] for line in having))
        # In Python, bool is a kind of int, but here it is no number.
        self.numeric = set(map(type, self.values)) <= {int, float}
        places: Sequence[Any] = self.values if self.numeric else range(len(self.values))
        self._places = dict(zip(self.values, map(float, places), strict=True))

    def points(self, lines: Sequence[Line]) -> list[tuple[float, Line]]:
        """The lines from left to right with their places; lines without the option are left out."""
        points = []
        for line in lines:
            if self.option in line.cell:
                points.append((self._places[line.cell[self.option]], line))
        return sorted(points, key=itemgetter(0))

    def level(self, line: Line) -> list[tuple[float, Line]]:
        """The two ends of a level line."""
        places = self._places.values()
        return [(min(places), line), (max(places), line)]

    def label(self, ax: Axes, *, log: bool) -> None:
        """Writes the values below the axis."""
        if not self.numeric:
            texts = [wording.value_text(value) for value in self.values]
            ax.set_xticks(range(len(self.values)), texts)
        elif log:
            ax.set_xscale("log")
            places = list(self._places.values())
            ax.set_xticks(places, [f"{place:g}" for place in places], rotation=45)
            ax.minorticks_off()


def _draw_curves(study: Study, figure: Figure, lines: Sequence[Line]) -> Drawing | None:
    """A curve for each arm and each place in the rest of the grid.

    Arms without the option of the horizontal axis are level lines.
    """
    axis = _Axis(figure.x, lines)
    if not axis.values:
        return None
    drawing, (ax,) = panels(
        [""], wording.value_text(figure.x), wording.heading(study, figure.y), size=(5.6, 3.8)
    )
    any_beside_measured = False
    for number, (name, group) in enumerate(_curves(figure, lines).items()):
        style = look(number)
        points = axis.points(group)
        if not points:
            points = axis.level(group[0])
            style["marker"] = ""
        x = np.array([place for place, _ in points])
        members = [line for _, line in points]
        is_measured = _plot_measured(ax, x, _measured(study, members, figure.y), name, style)
        published = _published(members, figure.y)
        label = "_" if is_measured else f"{name}, published"
        is_published = _plot_published(ax, x, published, label, style)
        if is_measured and is_published:
            any_beside_measured = True
    if any_beside_measured:
        # The legend has one entry for all published values beside measured ones.
        ax.plot([], [], color=INK, linewidth=1, label="published", **RING | {"linestyle": ":"})
    axis.label(ax, log=figure.log)
    return legend_below(drawing)


def _curves(figure: Figure, lines: Sequence[Line]) -> dict[str, list[Line]]:
    """The lines of each curve by its name: those that differ in the horizontal axis alone."""
    curves: dict[str, list[Line]] = {}
    for line in lines:
        cell = {option: value for option, value in line.cell.items() if option != figure.x}
        curves.setdefault(wording.line_title(line.arm, cell), []).append(line)
    return curves


def _plot_measured(
    ax: Axes, x: NDArray[np.float64], y: NDArray[np.float64], name: str, style: Mapping[str, Any]
) -> bool:
    """Plots means and deviations [2, N] at N places; says whether any mean is there.

    A line joins the cells that are measured, over those that are not.
    """
    mean, deviation = y
    is_known = np.isfinite(mean)
    if not is_known.any():
        return False
    low = (mean - deviation)[is_known]
    high = (mean + deviation)[is_known]
    ax.fill_between(x[is_known], low, high, color=style["color"], alpha=BAND_OPACITY)
    ax.plot(x[is_known], mean[is_known], label=name, **style)
    return True


def _plot_published(
    ax: Axes, x: NDArray[np.float64], y: NDArray[np.float64], label: str, style: Mapping[str, Any]
) -> bool:
    """Plots published values [N] at N places; says whether any is there."""
    is_printed = np.isfinite(y)
    if not is_printed.any():
        return False
    rings = {**style, "linestyle": ":", "markerfacecolor": "none", "markeredgewidth": 2}
    ax.plot(x[is_printed], y[is_printed], label=label, linewidth=1, **rings)
    return True


def _draw_bars(study: Study, score: str, lines: Sequence[Line]) -> Drawing | None:
    drawn = []
    for line in lines:
        if score in line.values or np.isfinite(_published([line], score)):
            drawn.append(line)
    if not drawn:
        return None
    names = [line.title for line in drawn]
    width = 4 + LETTER * max(map(len, names))
    height = 1 + 0.32 * len(names)
    drawing, (ax,) = panels([""], wording.heading(study, score), size=(width, height))
    mean, deviation = _measured(study, drawn, score)
    (places,) = np.nonzero(np.isfinite(mean))
    ax.barh(places, mean[places], 0.7, xerr=deviation[places], color=BLUE, ecolor=INK)
    starts = _measured(study, drawn, START + score)[0]
    if np.isfinite(starts).any():
        ax.plot(starts, range(len(drawn)), "D", color=VERMILION, label="start")
    published = _published(drawn, score)
    if np.isfinite(published).any():
        ax.plot(published, range(len(drawn)), color=INK, markersize=7, label="published", **RING)
    names_down(ax, names)
    return legend_below(drawing)


def _draw_points(study: Study, figure: Figure, lines: Sequence[Line]) -> Drawing | None:
    """A point for each line: one score against another, with one deviation of each."""
    drawn = [line for line in lines if figure.x in line.values and figure.y in line.values]
    if not drawn:
        return None
    drawing, (ax,) = panels(
        [""], wording.heading(study, figure.x), wording.heading(study, figure.y), size=(5.6, 3.8)
    )
    x, x_deviations = _measured(study, drawn, figure.x)
    y, y_deviations = _measured(study, drawn, figure.y)
    for number, line in enumerate(drawn):
        style = look(number) | {"linestyle": "none"}
        deviations = {"xerr": x_deviations[number], "yerr": y_deviations[number]}
        ax.errorbar(x[number], y[number], label=line.title, **deviations, **style)
    if figure.log:
        ax.set_xscale("log")
    return legend_below(drawing)


def _measured(study: Study, lines: Sequence[Line], score: str) -> NDArray[np.float64]:
    """The means and standard deviations [2, lines] of a score, on the table's scale.

    They are NaN where the score is not measured. The deviation of a single value is 0.
    """
    columns = []
    for line in lines:
        mean, deviation = line.summary(score) or (nan, None)
        columns.append(
            [
                wording.scaled(study, score, mean),
                wording.scaled(study, score, deviation or 0.0),
            ]
        )
    return np.array(columns).T


def _published(lines: Sequence[Line], score: str) -> NDArray[np.float64]:
    """The published values [lines] of a score; NaN where the paper prints none."""
    values = []
    for line in lines:
        if line.published:
            values.append(line.published.scores.get(score, nan))
        else:
            values.append(nan)
    return np.array(values)
