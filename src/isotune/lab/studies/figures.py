"""A study's figures, made of the lines of its table: curves with a band of one deviation, and bars.

Published values are drawn beside the measured ones. Scores have the scale of the study's table.
"""

from collections.abc import Sequence
from math import isfinite, nan
from operator import itemgetter

import numpy as np
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from isotune.lab.studies import wording
from isotune.lab.studies.lines import Line
from isotune.lab.studies.study import START, Figure, Study
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

LETTER = 0.075  # inches of a letter in an axis's names
BAND_OPACITY = 0.18


@styled
def draw(study: Study, figure: Figure, lines: Sequence[Line]) -> Drawing | None:
    """Draws a figure of a study; None if the lines have nothing to draw."""
    return (_curve if figure.kind == "curve" else _bars)(study, figure, lines)


def title(figure: Figure) -> str:
    """What a figure shows, in words."""
    over = f" by {wording.value_text(figure.x)}" if figure.x else ""
    return f"{wording.score_title(figure.y)}{over}"


def finding(study: Study, figure: Figure, lines: Sequence[Line]) -> str:
    """Where the score that a figure shows is highest, in words; the figure's title if nothing is measured."""
    measured = {line.title: summary[0] for line in lines if (summary := line.summary(figure.y))}
    if not measured:
        return title(figure)
    printed = {
        name: wording.measured_digits(study, figure.y, value) for name, value in measured.items()
    }
    highest = printed[max(measured, key=measured.__getitem__)]
    best = " and ".join(name for name, digits in printed.items() if digits == highest)
    return f"{title(figure)}: highest with {best}, {highest}"


def _curve(study: Study, figure: Figure, lines: Sequence[Line]) -> Drawing | None:
    """A curve for each arm and each place in the rest of the grid; arms without the option are level lines."""
    values = list(dict.fromkeys(line.cell[figure.x] for line in lines if figure.x in line.cell))
    if not values:
        return None
    numbers = [
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    numeric = len(numbers) == len(values)
    place_of = dict(
        zip(values, numbers if numeric else map(float, range(len(values))), strict=True)
    )
    drawing, (ax,) = panels(
        [""], wording.value_text(figure.x), wording.heading(study, figure.y), size=(5.6, 3.8)
    )
    both = False
    groups: dict[str, list[Line]] = {}
    for line in lines:
        cell = {key: value for key, value in line.cell.items() if key != figure.x}
        groups.setdefault(wording.line_title(line.arm, cell), []).append(line)
    for number, (name, group) in enumerate(groups.items()):
        style = look(number)
        points = sorted(
            ((place_of[line.cell[figure.x]], line) for line in group if figure.x in line.cell),
            key=itemgetter(0),
        )
        if not points:
            points = [
                (place, group[0]) for place in (min(place_of.values()), max(place_of.values()))
            ]
            style["marker"] = ""
        x = np.array([place for place, _ in points])
        mean, deviation = _measured(study, [line for _, line in points], figure.y)
        known = np.isfinite(
            mean
        )  # a line joins the cells that are measured, over those that are not
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


def _measured(study: Study, lines: Sequence[Line], score: str) -> NDArray[np.float64]:
    """The means and standard deviations [2, lines] of a score, on the table's scale;

    NaN where it is not measured.
    """
    summaries = [line.summary(score) or (nan, None) for line in lines]
    return np.array(
        [[wording.scaled(study, score, value or 0.0) for value in summary] for summary in summaries]
    ).T


def _published(line: Line, score: str) -> float:
    return line.published.scores.get(score, nan) if line.published else nan
