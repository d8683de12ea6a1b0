"""A figure as data: panels of series, bars and bands.

`drawing.py` draws it. Lengths are in inches; the sizes of type, lines and markers are in points; dashes and markers are
matplotlib's signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from isotune.report.style import BLUE


@dataclass(frozen=True)
class Series:
    """N points: joined by a line, marked, or labelled."""

    x: Sequence[float]  # [N]
    y: Sequence[float]  # [N]; a NaN breaks the line
    name: str = ""  # the entry in the legend; without a name there is none
    colour: str = BLUE  # of line, markers and labels
    dash: str = ""  # of the line; without it there is none
    marker: str = ""  # at the points; without it there is none
    hollow: bool = False  # whether the markers are rings
    width: float = 1.6  # of the line
    size: float = 5  # of a marker
    opacity: float = 1  # of line and markers
    labels: Sequence[str] = ()  # N texts that are written at the points
    hover: Sequence[str] = ()  # N texts that a page shows under the pointer


@dataclass(frozen=True)
class Bars:
    """N rectangles of one colour."""

    left: Sequence[float]  # [N], as are the next three
    bottom: Sequence[float]
    width: Sequence[float]
    height: Sequence[float]
    name: str = ""  # the entry in the legend
    colour: str = BLUE
    hover: Sequence[str] = ()  # N texts that a page shows under the pointer


@dataclass(frozen=True)
class Band:
    """The lightly coloured area between two lines of N points each. It has no entry in the legend."""

    x: Sequence[float]  # [N], as are the next two
    low: Sequence[float]
    high: Sequence[float]
    name: str = ""  # of the series that the band belongs to
    colour: str = BLUE


Mark: TypeAlias = Series | Bars | Band


@dataclass(frozen=True)
class Panel:
    """A pair of axes with what is drawn in them."""

    marks: Sequence[Mark]  # the last is on top
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    whole_x: bool = False  # whether the x axis has whole numbers only
    log_x: bool = False  # whether the x axis is logarithmic; its numbers then stand at the points
    x_names: Sequence[str] = ()  # at 0, 1, ... of the x axis, in place of numbers
    y_names: Sequence[str] = ()  # at 0, 1, ... of the y axis, from the top down, in place of numbers
    y_limits: tuple[float, float] | None = None  # of the y axis; None leaves them to the data
    bare: bool = False  # whether the axes have no meaning, and so no numbers
    legend: bool = False  # whether the legend is inside the panel, and not below all panels

    @property
    def points(self) -> list[float]:
        """The distinct finite x of all series, ascending."""
        return sorted({x for mark in self.marks if isinstance(mark, Series) for x in mark.x if isfinite(x)})


@dataclass(frozen=True)
class Chart:
    """Panels in a grid, row by row."""

    panels: Sequence[Panel]  # at least one
    size: tuple[float, float] = (3.4, 3.0)  # width and height of a panel
    columns: int = 2  # the greatest number of panels in a row
    same_axes: bool = True  # whether all panels have the same limits
    same_y: bool = True  # whether the same limits hold for the y axis too

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of the grid."""
        columns = min(self.columns, len(self.panels))
        return -(-len(self.panels) // columns), columns
