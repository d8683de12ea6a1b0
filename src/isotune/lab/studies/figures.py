"""A study's figures, out of its lines: curves with bands of one standard deviation, heatmaps, bars; published beside.

Each is a `Chart`, which is drawn on paper, in the page and in a browser alike. Scores are as the study's table prints
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, nan

from matplotlib import colormaps
from matplotlib.colors import Normalize, to_hex

from isotune.lab.studies.study import FigureSpec, Study, Value
from isotune.lab.studies.table import Line
from isotune.lab.studies.words import heading, in_words, label, plain, printed, scaled, score_title
from isotune.report.chart import Band, Bars, Chart, Mark, Panel, Series
from isotune.report.style import INK, look

COLOURS = colormaps["cividis"]  # its order is the same to the colour-blind and in grey
LETTER = 0.075  # inches of one in an axis's names


def chart(study: Study, figure: FigureSpec, lines: Sequence[Line]) -> Chart:
    """The chart of a figure."""
    return {"curve": _curve, "heatmap": _heatmap, "bars": _bars}[figure.kind](study, figure, lines)


def title(figure: FigureSpec) -> str:
    """What a figure shows, in words."""
    axes = [figure.x] if figure.x else [figure.rows, figure.columns] if figure.rows else []
    over = f" by {' and '.join(map(label, axes))}" if axes else ""
    return f"{score_title(figure.y)}{over}"


def _curve(study: Study, figure: FigureSpec, lines: Sequence[Line]) -> Chart:
    """A line for each arm and each place in the rest of the grid; arms that lack the option are level."""
    values = list(dict.fromkeys(line.cell[figure.x] for line in lines if figure.x in line.cell))
    if not values:
        return Chart([])
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    numeric = len(numbers) == len(values)
    places: dict[Value, float] = dict(zip(values, numbers if numeric else map(float, range(len(values))), strict=True))
    at = {place: f"{label(figure.x)} {plain(value)}" for value, place in places.items()}
    ends = [min(places.values()), max(places.values())]
    marks: list[Mark] = []
    some = False  # of what is measured is published too
    for i, (name, group) in enumerate(_without(lines, figure.x).items()):
        here = look(i)
        group = sorted(group, key=lambda line: places[line.cell[figure.x]] if figure.x in line.cell else 0)
        level = figure.x not in group[0].cell
        x = ends if level else [places[line.cell[figure.x]] for line in group]
        times = 2 if level else 1
        measured = [_measured(study, line, figure.y) for line in group] * times
        drawn = [(place, *one) for place, one in zip(x, measured, strict=True) if isfinite(one[0])]
        if drawn:
            where, mean, deviation = zip(*drawn, strict=True)
            low, high = ([value + sign * d for value, d in zip(mean, deviation, strict=True)] for sign in (-1, 1))
            if any(deviation):
                marks.append(Band(where, low, high, name, here.colour))
            hover = [f"{name}, {at[place]}: {value:.2f}" for place, value in zip(where, mean, strict=True)]
            sign = "" if level else here.marker
            marks.append(Series(where, mean, name, here.colour, here.dash, sign, hover=hover))
        published = [_published(line, figure.y) for line in group] * times
        if any(map(isfinite, published)):
            hover = [f"{name}, published: {value:g}" for value in published]
            entry = "" if drawn else f"{name}, published"
            marks.append(
                Series(x, published, entry, here.colour, ":", "" if level else here.marker, True, 1, hover=hover)
            )
            some |= bool(drawn)
    if some:  # one entry for all of them
        marks.append(Series([nan], [nan], "published", INK, ":", "o", hollow=True, width=1))
    panel = Panel(
        marks,
        x_label=label(figure.x),
        y_label=heading(study, figure.y),
        log_x=figure.log and numeric,  # names stand at 0, 1, ...
        x_names=() if numeric else [plain(value) for value in values],
    )
    return Chart([panel], size=(5.6, 3.8))


def _heatmap(study: Study, figure: FigureSpec, lines: Sequence[Line]) -> Chart:
    """A panel for each arm and each place in the rest of the grid, and one for what is published of it."""
    gridded = [line for line in lines if figure.rows in line.cell and figure.columns in line.cell]
    rows, columns = (list(dict.fromkeys(line.cell[axis] for line in gridded)) for axis in (figure.rows, figure.columns))
    panels = []
    for name, group in _without(gridded, figure.rows, figure.columns).items():
        cells = [(columns.index(line.cell[figure.columns]), rows.index(line.cell[figure.rows])) for line in group]
        for what, values in (
            (name, [_measured(study, line, figure.y)[0] for line in group]),
            (f"{name}, published", [_published(line, figure.y) for line in group]),
        ):
            found = [(*cell, value) for cell, value in zip(cells, values, strict=True) if isfinite(value)]
            if found:
                panels.append(
                    Panel(
                        _cells(study, figure.y, found),
                        what,
                        label(figure.columns),
                        label(figure.rows),
                        x_names=[plain(value) for value in columns],
                        y_names=[plain(value) for value in rows],
                    )
                )
    left = LETTER * max((len(plain(value)) for value in rows), default=0)
    across = max((len(plain(value)) for value in columns), default=0) * LETTER + 0.1
    width = 1 + left + max(0.6, across) * len(columns)
    return Chart(panels, (width, 1 + 0.5 * len(rows)), columns=1 if width > 4 else 2, same_axes=False)


def _cells(study: Study, score: str, found: Sequence[tuple[int, int, float]]) -> list[Mark]:
    """A square for each (column, row, value), the value in it."""
    scale = Normalize(min(value for *_, value in found), max(value for *_, value in found))
    marks: list[Mark] = []
    for column, row, value in found:
        colour = COLOURS(scale(value))
        text = printed(study, score, value, published=True)  # it is scaled
        marks.append(Bars([column - 0.5], [row - 0.5], [1], [1], colour=to_hex(colour), hover=[text]))
        ink = "#000000" if sum(colour[:3]) > 1.4 else "#ffffff"
        marks.append(Series([column], [row], colour=ink, labels=[text]))
    return marks


def _list(study: Study, figure: FigureSpec, lines: Sequence[Line]) -> Chart:
    """A bar a line, one under the other."""
    drawn = [line for line in lines if figure.y in line.values or isfinite(_published(line, figure.y))]
    marks: list[Mark] = []
    for place, line in enumerate(drawn):
        mean, deviation = _measured(study, line, figure.y)
        if isfinite(mean):
            hover = [f"{line.title}: {mean:.2f}"]
            marks.append(Bars([0], [place - 0.35], [mean], [0.7], colour=look(0).colour, hover=hover))
            marks.append(Series([mean - deviation, mean + deviation], [place, place], colour=INK, dash="-"))
    published = [_published(line, figure.y) for line in drawn]
    marks += _rings(published, list(range(len(drawn))), published)
    names = [line.title for line in drawn]
    panel = Panel(marks, x_label=heading(study, figure.y), y_names=names)
    return Chart([panel], size=(4 + LETTER * max(map(len, names), default=0), 1 + 0.32 * len(names)))


def _bars(study: Study, figure: FigureSpec, lines: Sequence[Line]) -> Chart:
    """A bar an arm, side by side at each value of an option."""
    if not figure.x:
        return _list(study, figure, lines)
    gridded = [line for line in lines if figure.x in line.cell]
    values = list(dict.fromkeys(line.cell[figure.x] for line in gridded))
    groups = _without(gridded, figure.x)
    width = 0.8 / max(1, len(groups))
    marks: list[Mark] = []
    for i, (name, group) in enumerate(groups.items()):
        middles = [values.index(line.cell[figure.x]) - 0.4 + (i + 0.5) * width for line in group]
        found = [(x, *_measured(study, line, figure.y)) for x, line in zip(middles, group, strict=True)]
        for x, mean, deviation in (one for one in found if isfinite(one[1])):
            hover = [f"{name}: {mean:.2f}"]
            marks.append(Bars([x - width / 2], [0], [width], [mean], name, look(i).colour, hover=hover))
            marks.append(Series([x, x], [mean - deviation, mean + deviation], colour=INK, dash="-"))
        published = [_published(line, figure.y) for line in group]
        marks += _rings(middles, published, published)
    panel = Panel(
        marks,
        x_label=label(figure.x),
        y_label=heading(study, figure.y),
        x_names=[plain(value) for value in values],
    )
    return Chart([panel], size=(5.6, 3.8))


def _rings(x: Sequence[float], y: Sequence[float], values: Sequence[float]) -> list[Series]:
    """What is published, as rings; none if nothing is."""
    if not any(map(isfinite, values)):
        return []
    hover = [f"published: {value:g}" for value in values]
    return [Series(x, y, "published", INK, marker="o", hollow=True, size=7, hover=hover)]


def _without(lines: Iterable[Line], *axes: str) -> Mapping[str, list[Line]]:
    """The lines by what they are apart from some options of the grid."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        cell = {key: value for key, value in line.cell.items() if key not in axes}
        groups.setdefault(in_words(line.arm, cell), []).append(line)
    return groups


def _measured(study: Study, line: Line, score: str) -> tuple[float, float]:
    """Mean and standard deviation, as printed; NaN of what isn't measured."""
    found = line.summary(score)
    if found is None:
        return nan, 0.0
    return scaled(study, score, found.mean), scaled(study, score, found.deviation or 0.0)


def _published(line: Line, score: str) -> float:
    return line.published.scores.get(score, nan) if line.published else nan
