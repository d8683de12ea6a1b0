"""A study's figures, made of the lines of its table: curves with a band of one deviation, heatmaps and bars.

Published values are drawn beside the measured ones. Scores have the scale of the study's table.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, nan
from operator import itemgetter

import numpy as np
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from isotune.lab.studies import wording
from isotune.lab.studies.lines import Line
from isotune.lab.studies.study import START, Figure, Study, Value
from isotune.report import BLUE, INK, RING, VERMILION, legend_below, look, names_down, panels, styled

COLOURS = "cividis"  # in order also for the colour-blind, and in grey
LETTER = 0.075  # inches of a letter in an axis's names
BAND_OPACITY = 0.18


@styled
def draw(study: Study, figure: Figure, lines: Sequence[Line]) -> Drawing | None:
    """Draws a figure of a study; None if the lines have nothing to draw."""
    kinds = {"curve": _curve, "heatmap": _heatmap, "bars": _bars}
    return kinds[figure.kind](study, figure, lines)


def title(figure: Figure) -> str:
    """What a figure shows, in words."""
    over = f" by {' and '.join(map(wording.label, figure.axes))}" if figure.axes else ""
    return f"{wording.score_title(figure.y)}{over}"


def finding(study: Study, figure: Figure, lines: Sequence[Line]) -> str:
    """Where the score that a figure shows is highest, in words; the figure's title if nothing is measured."""
    measured = {line.title: summary[0] for line in lines if (summary := line.summary(figure.y))}
    if not measured:
        return title(figure)
    printed = {name: wording.measured_digits(study, figure.y, value) for name, value in measured.items()}
    highest = printed[max(measured, key=measured.__getitem__)]
    best = " and ".join(name for name, digits in printed.items() if digits == highest)
    return f"{title(figure)}: highest with {best}, {highest}"


def _curve(study: Study, figure: Figure, lines: Sequence[Line]) -> Drawing | None:
    """A curve for each arm and each place in the rest of the grid; arms without the option are level lines."""
    values = list(dict.fromkeys(line.cell[figure.x] for line in lines if figure.x in line.cell))
    if not values:
        return None
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    numeric = len(numbers) == len(values)
    place_of = dict(zip(values, numbers if numeric else map(float, range(len(values))), strict=True))
    drawing, (ax,) = panels([""], wording.label(figure.x), wording.heading(study, figure.y), size=(5.6, 3.8))
    both = False
    for number, (name, group) in enumerate(_without(lines, figure.x).items()):
        style = look(number)
        points = sorted(
            ((place_of[line.cell[figure.x]], line) for line in group if figure.x in line.cell), key=itemgetter(0)
        )
        if not points:
            points = [(place, group[0]) for place in (min(place_of.values()), max(place_of.values()))]
            style["marker"] = ""
        x = np.array([place for place, _ in points])
        mean, deviation = _measured(study, [line for _, line in points], figure.y)
        known = np.isfinite(mean)  # a line joins the cells that are measured, over those that are not
        if known.any():
            low, high = (mean - deviation)[known], (mean + deviation)[known]
            ax.fill_between(x[known], low, high, color=style["color"], alpha=BAND_OPACITY)
            ax.plot(x[known], mean[known], label=name, **style)
        published = np.array([_published(line, figure.y) for _, line in points])
        if (printed := np.isfinite(published)).any():
            both |= bool(known.any())
            rings = style | {"linestyle": ":", "markerfacecolor": "none", "markeredgewidth": 2}
            named = "_" if known.any() else f"{name}, published"
            ax.plot(x[printed], published[printed], label=named, linewidth=1, **rings)
    if both:  # one entry for all
        ax.plot([], [], color=INK, linewidth=1, label="published", **RING | {"linestyle": ":"})
    if not numeric:
        ax.set_xticks(range(len(values)), [wording.value_text(value) for value in values])
    elif figure.log:
        ax.set_xscale("log")
        ax.set_xticks(numbers, [f"{x:g}" for x in numbers], rotation=45)
        ax.minorticks_off()
    return legend_below(drawing)


def _heatmap(study: Study, figure: Figure, lines: Sequence[Line]) -> Drawing | None:
    """A panel of measured values for each arm and each place in the rest of the grid, and one of published values."""
    place_of = {line: (_place(line, figure.rows), _place(line, figure.columns)) for line in lines}
    gridded = [line for line, place in place_of.items() if "" not in place]
    rows, columns = (list(dict.fromkeys(place_of[line][axis] for line in gridded)) for axis in (0, 1))
    squares: dict[str, NDArray[np.float64]] = {}  # title of a panel -> [rows, columns]
    for name, group in _without(gridded, figure.rows, figure.columns).items():
        places = [(rows.index(place_of[line][0]), columns.index(place_of[line][1])) for line in group]
        published = [_published(line, figure.y) for line in group]
        for panel, values in ((name, _measured(study, group, figure.y)[0]), (f"{name}, published", published)):
            if np.isfinite(values).any():
                squares[panel] = np.full((len(rows), len(columns)), nan)
                squares[panel][tuple(np.transpose(places))] = values
    if not squares:
        return None
    row_names, column_names = ([wording.value_text(value) for value in values] for values in (rows, columns))
    width = 1 + LETTER * max(map(len, row_names)) + max(0.6, LETTER * max(map(len, column_names)) + 0.1) * len(columns)
    names = wording.label(figure.columns), wording.label(figure.rows)
    size = width, 1 + 0.5 * len(rows)
    drawing, axes = panels(list(squares), *names, size=size, columns=1 if width > 4 else 2, same="")
    edges = np.arange(len(columns) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5
    for ax, values in zip(axes, squares.values(), strict=True):
        mesh = ax.pcolormesh(*edges, values, cmap=COLOURS)
        for (row, column), value in np.ndenumerate(values):
            if isfinite(value):
                ink = "#000000" if sum(mesh.to_rgba(np.asarray(value))[:3]) > 1.4 else "#ffffff"
                ax.text(
                    column, row, wording.digits(study, figure.y, value), color=ink, fontsize=7, ha="center", va="center"
                )
        ax.set_xticks(range(len(columns)), column_names)
        names_down(ax, row_names)
    return drawing


def _bars(study: Study, figure: Figure, lines: Sequence[Line]) -> Drawing | None:
    score = figure.y
    drawn = [line for line in lines if score in line.values or isfinite(_published(line, score))]
    if not drawn:
        return None
    names = [line.title for line in drawn]
    size = 4 + LETTER * max(map(len, names)), 1 + 0.32 * len(names)
    drawing, (ax,) = panels([""], wording.heading(study, score), size=size)
    mean, deviation = _measured(study, drawn, score)
    (places,) = np.nonzero(np.isfinite(mean))
    ax.barh(places, mean[places], 0.7, xerr=deviation[places], color=BLUE, ecolor=INK)
    starts = _measured(study, drawn, START + score)[0]
    if np.isfinite(starts).any():
        ax.plot(starts, range(len(drawn)), "D", color=VERMILION, label="start")
    published = [_published(line, score) for line in drawn]
    if any(map(isfinite, published)):
        ax.plot(published, range(len(drawn)), color=INK, markersize=7, label="published", **RING)
    names_down(ax, names)
    return legend_below(drawing)


def _place(line: Line, axis: str) -> Value:
    """A line's value on an axis, which is an option or, as "augmentations.0", an element of its values; "" if none."""
    option, _, element = axis.partition(".")
    value = line.cell.get(option, "")
    return dict(enumerate(value)).get(int(element), "") if element.isdecimal() and isinstance(value, tuple) else value


def _without(lines: Iterable[Line], *axes: str) -> Mapping[str, list[Line]]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        cell = {key: value for key, value in line.cell.items() if key not in [axis.partition(".")[0] for axis in axes]}
        groups.setdefault(wording.line_title(line.arm, cell), []).append(line)
    return groups


def _measured(study: Study, lines: Sequence[Line], score: str) -> NDArray[np.float64]:
    """The means and standard deviations [2, lines] of a score, on the table's scale; NaN where it is not measured."""
    summaries = [line.summary(score) or (nan, None) for line in lines]
    return np.array([[wording.scaled(study, score, value or 0.0) for value in summary] for summary in summaries]).T


def _published(line: Line, score: str) -> float:
    return line.published.scores.get(score, nan) if line.published else nan
