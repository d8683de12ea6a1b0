"""A figure as data: panels of series, bars and bands.

`drawing.py` draws it with matplotlib, for paper and for a page; `interactive.py` draws it with plotly, for a browser.
Lengths are in inches; the sizes of type, lines and markers are in points; dashes and markers are matplotlib's signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from isotune.report.style import BLUE


@dataclass(frozen=True)
class Series:
    """N points: joined by a line, marked, or labelled.

    Attributes:
        x, y: [N]; a point with a NaN breaks the line.
        name: the entry in the legend; without a name there is no entry.
        colour: the colour of line, markers and labels.
        dash: the line's dash; without it there is no line.
        marker: the points' marker; without it there are no markers.
        hollow: whether the markers are rings.
        width, size: the width of the line, the size of a marker.
        opacity: of line and markers.
        labels: N texts that are written at the points.
        hover: N texts that a browser shows under the pointer.
    """

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    colour: str = BLUE
    dash: str = ""
    marker: str = ""
    hollow: bool = False
    width: float = 1.6
    size: float = 5
    opacity: float = 1
    labels: Sequence[str] = ()
    hover: Sequence[str] = ()


@dataclass(frozen=True)
class Bars:
    """N rectangles.

    Attributes:
        left, bottom, width, height: [N].
        name: the entry in the legend.
        colour: the colour of all rectangles.
        hover: N texts that a browser shows under the pointer.
    """

    left: Sequence[float]
    bottom: Sequence[float]
    width: Sequence[float]
    height: Sequence[float]
    name: str = ""
    colour: str = BLUE
    hover: Sequence[str] = ()


@dataclass(frozen=True)
class Band:
    """The lightly coloured area between two lines of N points each; it has no entry in the legend.

    Attributes:
        x, low, high: [N].
        name: the name of the series that the band belongs to.
        colour: the colour of the area.
    """

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    name: str = ""
    colour: str = BLUE


Mark: TypeAlias = Series | Bars | Band


@dataclass(frozen=True)
class Panel:
    """A pair of axes with what is drawn in them.

    Attributes:
        marks: what is drawn, the last on top.
        title, x_label, y_label: the panel's texts.
        whole_x: whether the x axis has whole numbers only.
        log_x: whether the x axis is logarithmic; its numbers then stand at the points.
        x_names: names at 0, 1, ... of the x axis, in place of numbers.
        y_names: names at 0, 1, ... of the y axis, from the top down, in place of numbers.
        y_limits: the limits of the y axis; chosen by the data if None, and always in a browser.
        bare: whether the axes have no meaning, and so no numbers.
        legend: whether the legend stands inside the panel, and not below all panels, when matplotlib draws it.
    """

    marks: Sequence[Mark]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    whole_x: bool = False
    log_x: bool = False
    x_names: Sequence[str] = ()
    y_names: Sequence[str] = ()
    y_limits: tuple[float, float] | None = None
    bare: bool = False
    legend: bool = False

    @property
    def points(self) -> list[float]:
        """The distinct finite x of all series, ascending."""
        return sorted({x for mark in self.marks if isinstance(mark, Series) for x in mark.x if isfinite(x)})


@dataclass(frozen=True)
class Chart:
    """Panels in a grid, row by row.

    Attributes:
        panels: at least one.
        size: the width and height of a panel.
        columns: the greatest number of panels in a row.
        same_axes: whether all panels have the same limits.
        same_y: whether the panels have the same limits on the y axis too.
    """

    panels: Sequence[Panel]
    size: tuple[float, float] = (3.4, 3.0)
    columns: int = 2
    same_axes: bool = True
    same_y: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of the grid."""
        columns = min(self.columns, len(self.panels))
        return -(-len(self.panels) // columns), columns
