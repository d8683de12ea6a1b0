"""A figure as data: panels of series, bars and bands.

matplotlib draws it here for paper, `interactive.py` for a browser.
Lengths are in inches, sizes of type, lines and markers in points; dashes and markers are matplotlib's signs.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TypeAlias

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isotune.files import replacing
from isotune.report.style import BLUE, STYLE

LETTER = 0.07  # the width of one in a legend
LOG_GAP = 0.06  # the least distance of two numbers on a logarithmic axis, as a share of its length
TITLE = 38  # letters in a line of a panel's title
BAND = 0.18  # the opacity of a band


@dataclass(frozen=True)
class Series:
    """N points: joined, marked, or written.

    Attributes:
        x, y: [N]; where one is NaN, the line is broken.
        name: its entry in the legend; it has none without.
        colour: of all of it.
        dash: of the line that joins the points; there is none without.
        marker: of each point; there is none without.
        hollow: whether markers are rings.
        width, size: of the line and of a marker.
        opacity: of all of it.
        labels: N texts, written at the points.
        hover: N texts, shown in a browser under the pointer.
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
        name: their entry in the legend.
        colour: of all of them.
        hover: N texts, shown in a browser under the pointer.
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
    """What lies between two lines of N points each, lightly coloured; it has no entry in the legend.

    Attributes:
        x, low, high: [N].
        name: of the series that it goes with.
        colour: of its filling.
    """

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    name: str = ""
    colour: str = BLUE


Mark: TypeAlias = Series | Bars | Band


@dataclass(frozen=True)
class Panel:
    """A pair of axes.

    Attributes:
        marks: what is drawn, the last on top.
        title, x_label, y_label: its texts.
        whole_x: whether only whole numbers stand at the x axis.
        log_x: whether the x axis is logarithmic, with its numbers where there are points.
        x_names: what stands at the x axis at 0, 1, ..., in place of numbers.
        y_names: what stands at the y axis at 0, 1, ..., from the top down, in place of numbers.
        bare: whether the axes have no meaning, and so no numbers.
    """

    marks: Sequence[Mark]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    whole_x: bool = False
    log_x: bool = False
    x_names: Sequence[str] = ()
    y_names: Sequence[str] = ()
    bare: bool = False

    @property
    def points(self) -> list[float]:
        """Where on the x axis series have points."""
        return sorted({x for mark in self.marks if isinstance(mark, Series) for x in mark.x if isfinite(x)})


@dataclass(frozen=True)
class Chart:
    """Panels in a grid, row by row.

    Attributes:
        panels: at least one.
        size: width and height of a panel.
        columns: panels in a row, at most.
        same_axes: whether all have the same limits.
        own_y: whether they are the same across only.
    """

    panels: Sequence[Panel]
    size: tuple[float, float] = (3.4, 3.0)
    columns: int = 2
    same_axes: bool = True
    own_y: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        columns = min(self.columns, len(self.panels))
        return -(-len(self.panels) // columns), columns


@rc_context(STYLE)
def draw(chart: Chart) -> Figure:
    """The chart as a figure of matplotlib's, with one legend below all panels."""
    rows, columns = chart.shape
    width, height = columns * chart.size[0], rows * chart.size[1]
    figure = Figure(figsize=(width, height), layout="constrained")
    same_y = chart.same_axes and not chart.own_y
    grid = figure.subplots(rows, columns, sharex=chart.same_axes, sharey=same_y, squeeze=False).ravel()
    for i, (ax, panel) in enumerate(zip(grid, chart.panels, strict=False)):
        draw_panel(ax, panel)
        if chart.same_axes:  # what they are is said at the edges
            ax.tick_params(labelbottom=i + columns >= len(chart.panels))
            ax.set_xlabel(panel.x_label if i + columns >= len(chart.panels) else "")
            ax.set_ylabel(panel.y_label if i % columns == 0 else "")
    for ax in grid[len(chart.panels) :]:
        ax.remove()
    entries = {name: handle for ax in figure.axes for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    if entries:
        across = int(width / (LETTER * (5 + max(map(len, entries)))))
        columns = max(1, min(across, len(entries)))
        figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)
    return figure


@rc_context(STYLE)
def save_png(chart: Chart, path: Path) -> None:
    """Writes the chart at a printer's resolution."""
    with replacing(path) as part:
        draw(chart).savefig(part, format="png", dpi=300)


def draw_panel(ax: Axes, panel: Panel) -> None:
    """The panel on these axes; the legend is the caller's."""
    for mark in panel.marks:
        name = mark.name or "_"  # matplotlib leaves such a name out of legends
        if isinstance(mark, Bars):
            ax.bar(
                mark.left,
                mark.height,
                mark.width,
                mark.bottom,
                align="edge",
                color=mark.colour,
                label=name,
                linewidth=0,
            )
            continue
        if isinstance(mark, Band):
            ax.fill_between(mark.x, mark.low, mark.high, color=mark.colour, alpha=BAND, linewidth=0)
            continue
        ax.plot(
            mark.x,
            mark.y,
            label=name,
            color=mark.colour,
            linestyle=mark.dash or "none",
            linewidth=mark.width,
            marker=mark.marker,
            markersize=mark.size,
            markerfacecolor="none" if mark.hollow else mark.colour,
            markeredgewidth=2 if mark.hollow else 0,
            alpha=mark.opacity,
            rasterized=not mark.dash,
        )
        for x, y, label in zip(mark.x, mark.y, mark.labels, strict=False):
            ax.text(x, y, label, color=mark.colour, fontsize=7, ha="center", va="center", clip_on=True)
    ax.set_title(textwrap.fill(panel.title, TITLE), fontsize=10, loc="left")
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.whole_x:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.log_x:
        ax.set_xscale("log")
        ax.set_xticks(panel.points, _log_labels(panel.points, *ax.get_xlim()))
        ax.minorticks_off()
    if panel.x_names:
        ax.set_xticks(range(len(panel.x_names)), panel.x_names)
        ax.set_xlim(-0.5, len(panel.x_names) - 0.5)
    if panel.y_names:
        ax.set_yticks(range(len(panel.y_names)), panel.y_names, fontsize=8)
        ax.set_ylim(len(panel.y_names) - 0.5, -0.5)
    if panel.bare:
        ax.set(xticks=[], yticks=[])
        ax.spines[["top", "right"]].set_visible(True)


def _log_labels(points: Sequence[float], low: float, high: float) -> list[str]:
    """Of points in ascending order, on a logarithmic axis; empty where one would run into the one before."""
    gap = (high / low) ** LOG_GAP
    labels, last = [], 0.0
    for x in points:
        free = x >= last * gap
        labels.append(f"{x:g}" if free else "")
        last = x if free else last
    return labels
