"""A study's figures, made of the lines of its table: curves with bands of one standard deviation, heatmaps, and bars.

Published values are drawn beside the measured ones. Each figure is a `Chart`, so it looks the same on paper, in the
page and in a browser. Scores have the scale of the study's table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, nan
from operator import itemgetter

from matplotlib import colormaps
from matplotlib.colors import Normalize, to_hex

from isotune.lab.studies.lines import Line
from isotune.lab.studies.study import BarChart, Curve, Figure, Heatmap, Study
from isotune.lab.studies.wording import digits, heading, label, line_title, scaled, score_title, value_text
from isotune.report import INK, Band, Bars, Chart, Look, Mark, Panel, Series, look

COLOURS = colormaps["cividis"]  # in order also for the colour-blind, and in grey
LETTER = 0.075  # inches of a letter in an axis's names
SIZE = (5.6, 3.8)  # inches


def chart(study: Study, figure: Figure, lines: Sequence[Line]) -> Chart:
    """Draws a figure of a study."""
    match figure:
        case Curve():
            return _curve(study, figure, lines)
        case Heatmap():
            return _heatmap(study, figure, lines)
        case BarChart():
            return _bars(study, figure.y, lines)


def title(figure: Figure) -> str:
    """What a figure shows, in words."""
    over = f" by {' and '.join(map(label, figure.axes))}" if figure.axes else ""
    return f"{score_title(figure.y)}{over}"


def _curve(study: Study, figure: Curve, lines: Sequence[Line]) -> Chart:
    """A curve for each arm and each place in the rest of the grid; arms without the option are level lines."""
    values = list(dict.fromkeys(line.cell[figure.x] for line in lines if figure.x in line.cell))
    if not values:
        return Chart([])
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    numeric = len(numbers) == len(values)
    place_of = dict(zip(values, numbers if numeric else map(float, range(len(values))), strict=True))
    names = {place: f"{label(figure.x)} {value_text(value)}" for value, place in place_of.items()}
    marks: list[Mark] = []
    for number, (name, group) in enumerate(_without(lines, figure.x).items()):
        style = look(number)
        points = [(place_of[line.cell[figure.x]], line) for line in group if figure.x in line.cell]
        if not points:
            points, style = [(place, group[0]) for place in (min(names), max(names))], style._replace(marker="")
        marks += _marks_of_curve(study, figure.y, name, sorted(points, key=itemgetter(0)), names, style)
    if any(isinstance(mark, Series) and mark.hollow and not mark.name for mark in marks):
        marks.append(Series([nan], [nan], "published", INK, ":", "o", hollow=True, width=1))  # one entry for all
    panel = Panel(
        marks,
        x_label=label(figure.x),
        y_label=heading(study, figure.y),
        log_x=figure.log and numeric,  # names stand at 0, 1, ...
        x_names=() if numeric else [value_text(value) for value in values],
    )
    return Chart([panel], size=SIZE)


def _marks_of_curve(
    study: Study,
    score: str,
    name: str,
    points: Sequence[tuple[float, Line]],
    place_names: Mapping[float, str],
    style: Look,
) -> list[Mark]:
    """The measured curve with its band, and the published one, which has an entry of its own if nothing is measured."""
    marks: list[Mark] = []
    measured = [(place, *_measured(study, line, score)) for place, line in points]
    if drawn := [point for point in measured if isfinite(point[1])]:
        x, mean, deviation = zip(*drawn, strict=True)
        if any(deviation):
            low, high = ([value + sign * d for value, d in zip(mean, deviation, strict=True)] for sign in (-1, 1))
            marks.append(Band(x, low, high, name, style.colour))
        hover = [f"{name}, {place_names[place]}: {value:.2f}" for place, value, _ in drawn]
        marks.append(Series(x, mean, name, style.colour, style.dash, style.marker, hover=hover))
    published = [_published(line, score) for _, line in points]
    if any(map(isfinite, published)):
        everywhere, entry = [place for place, _ in points], "" if drawn else f"{name}, published"
        hover = [f"{name}, published: {value:g}" for value in published]
        marks.append(Series(everywhere, published, entry, style.colour, ":", style.marker, True, 1, hover=hover))
    return marks


def _heatmap(study: Study, figure: Heatmap, lines: Sequence[Line]) -> Chart:
    """A panel of measured values for each arm and each place in the rest of the grid, and one of published values."""
    gridded = [line for line in lines if figure.rows in line.cell and figure.columns in line.cell]
    rows, columns = (list(dict.fromkeys(line.cell[axis] for line in gridded)) for axis in (figure.rows, figure.columns))
    row_names, column_names = ([value_text(value) for value in values] for values in (rows, columns))
    panels = []
    for name, group in _without(gridded, figure.rows, figure.columns).items():
        places = [(columns.index(line.cell[figure.columns]), rows.index(line.cell[figure.rows])) for line in group]
        measured = [_measured(study, line, figure.y)[0] for line in group]
        published = [_published(line, figure.y) for line in group]
        for panel_title, values in ((name, measured), (f"{name}, published", published)):
            cells = [(*place, value) for place, value in zip(places, values, strict=True) if isfinite(value)]
            if cells:
                marks = _squares(study, figure.y, cells)
                axes = (label(figure.columns), label(figure.rows))
                panels.append(Panel(marks, panel_title, *axes, x_names=column_names, y_names=row_names))
    left = LETTER * max(map(len, row_names), default=0)
    across = LETTER * max(map(len, column_names), default=0) + 0.1
    width = 1 + left + max(0.6, across) * len(columns)
    return Chart(panels, (width, 1 + 0.5 * len(rows)), columns=1 if width > 4 else 2, same_axes=False)


def _squares(study: Study, score: str, cells: Sequence[tuple[int, int, float]]) -> list[Mark]:
    """A coloured square for each (column, row, value), with the value written in it."""
    scale = Normalize(min(value for *_, value in cells), max(value for *_, value in cells))
    marks: list[Mark] = []
    for column, row, value in cells:
        colour = COLOURS(scale(value))
        text = digits(study, score, value)
        marks.append(Bars([column - 0.5], [row - 0.5], [1], [1], colour=to_hex(colour), hover=[text]))
        ink = "#000000" if sum(colour[:3]) > 1.4 else "#ffffff"
        marks.append(Series([column], [row], colour=ink, labels=[text]))
    return marks


def _bars(study: Study, score: str, lines: Sequence[Line]) -> Chart:
    """A bar for each line, one below the other, and a ring for its published value."""
    drawn = [line for line in lines if score in line.values or isfinite(_published(line, score))]
    marks: list[Mark] = []
    for place, line in enumerate(drawn):
        mean, deviation = _measured(study, line, score)
        if isfinite(mean):
            hover = [f"{line.title}: {mean:.2f}"]
            marks.append(Bars([0], [place - 0.35], [mean], [0.7], colour=look(0).colour, hover=hover))
            marks.append(Series([mean - deviation, mean + deviation], [place, place], colour=INK, dash="-"))
    published = [_published(line, score) for line in drawn]
    if any(map(isfinite, published)):
        hover = [f"published: {value:g}" for value in published]
        rings = Series(published, [*range(len(drawn))], "published", INK, marker="o", hollow=True, size=7, hover=hover)
        marks.append(rings)
    names = [line.title for line in drawn]
    panel = Panel(marks, x_label=heading(study, score), y_names=names)
    return Chart([panel], size=(4 + LETTER * max(map(len, names), default=0), 1 + 0.32 * len(names)))


def _without(lines: Iterable[Line], *axes: str) -> Mapping[str, list[Line]]:
    """The lines grouped by what they have besides some options of the grid."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        cell = {key: value for key, value in line.cell.items() if key not in axes}
        groups.setdefault(line_title(line.arm, cell), []).append(line)
    return groups


def _measured(study: Study, line: Line, score: str) -> tuple[float, float]:
    """The mean and standard deviation of a score, on the table's scale; NaN and 0 if it is not measured."""
    over_seeds = line.summary(score)
    if over_seeds is None:
        return nan, 0.0
    return scaled(study, score, over_seeds.mean), scaled(study, score, over_seeds.deviation or 0.0)


def _published(line: Line, score: str) -> float:
    return line.published.scores.get(score, nan) if line.published else nan
