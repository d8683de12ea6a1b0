"""Charts drawn by matplotlib: as a PNG for paper, and as an SVG element for an HTML page.

Text, axes and grid of an SVG are drawn in one marker colour that becomes `currentColor`, so they take the page's text
colour, light, dark or printed. Many points become one embedded bitmap, so a figure's size does not grow with its data.
What a mark says under the pointer is the `<title>` of an invisible element over it, which a browser shows by itself.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isotune.files import replacing, write_text
from isotune.report.chart import Band, Bars, Chart, Mark, Panel
from isotune.report.style import BAND_OPACITY, INK, STYLE
from isotune.report.templates import template

LETTER_WIDTH = 0.07  # inches, in a legend
TITLE_LETTERS = 38  # in a line of a panel's title
MIN_LOG_GAP = 0.06  # between two numbers on a logarithmic axis, as a share of its length
MANY_POINTS = 100  # from here on, points without a line are a bitmap
PNG_DPI, BITMAP_DPI = 300, 200
REACH = 4  # points around the middle of a mark in which a page shows the mark's text


@rc_context(STYLE)
def draw(chart: Chart) -> Figure:
    """Draws the chart; panels without a legend of their own share one below all panels."""
    rows, columns = chart.shape
    width, height = columns * chart.size[0], rows * chart.size[1]
    figure = Figure(figsize=(width, height), layout="constrained")
    same_y = chart.same_axes and chart.same_y
    grid = figure.subplots(rows, columns, sharex=chart.same_axes, sharey=same_y, squeeze=False).ravel()
    entries: dict[str, Artist] = {}
    for i, (ax, panel) in enumerate(zip(grid, chart.panels, strict=False)):
        for mark in panel.marks:
            _draw_mark(ax, mark)
        _format_axes(ax, panel)
        if chart.same_axes:  # labels and numbers stand at the edges of the grid only
            lowest = i + columns >= len(chart.panels)
            ax.tick_params(labelbottom=lowest)
            ax.set_xlabel(panel.x_label if lowest else "")
            ax.set_ylabel(panel.y_label if i % columns == 0 else "")
        handles, names = ax.get_legend_handles_labels()
        if not panel.legend:
            entries |= dict(zip(names, handles, strict=True))
        elif names:
            ax.legend(loc="best", ncols=1 + (len(names) > 4))
    for ax in grid[len(chart.panels) :]:
        ax.remove()
    if entries:
        across = int(width / (LETTER_WIDTH * (5 + max(map(len, entries)))))
        columns = max(1, min(across, len(entries)))
        figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)
    return figure


def save_png(chart: Chart, path: Path) -> None:
    """Writes the chart as a PNG at a printer's resolution."""
    with replacing(path) as part, rc_context(STYLE):
        draw(chart).savefig(part, format="png", dpi=PNG_DPI)


@rc_context(STYLE)
def svg(chart: Chart, name: str, description: str) -> str:
    """Returns the chart as an `<svg>` element with a description for people who cannot see it.

    `name` distinguishes the element's ids from those of other figures in the page.
    """
    figure, file = draw(chart), StringIO()
    figure.set_facecolor("none")
    for ax in figure.axes:
        ax.set_facecolor("none")
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", dpi=BITMAP_DPI, metadata=no_metadata)
    text = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}-", file.getvalue()).replace(INK, "currentColor")
    body = text.partition("<svg ")[2].replace("</svg>", _titles(figure, chart) + "</svg>")
    return f'<svg role="img" aria-label="{escape(description)}" ' + body


def save_page(path: Path, title: str, texts: Sequence[str], chart: Chart) -> None:
    """Writes a page of one file: a title, the chart, and paragraphs below it."""
    write_text(path, template("chart.html.j2").render(title=title, chart=svg(chart, "chart", title), texts=texts))


def _titles(figure: Figure, chart: Chart) -> str:
    """Returns SVG elements, in points from the upper left corner, that show the marks' texts under the pointer."""
    height, points = figure.bbox.height, 72 / figure.dpi
    shapes = []
    for ax, panel in zip(figure.axes, chart.panels, strict=False):
        for mark in panel.marks:
            if isinstance(mark, Band) or not mark.hover:
                continue
            if isinstance(mark, Bars):
                corners = np.stack([mark.left, mark.bottom], 1), np.stack([mark.width, mark.height], 1)
                low, high = (ax.transData.transform(ends) for ends in (corners[0], corners[0] + corners[1]))
                places = np.column_stack([low[:, 0], height - high[:, 1], high - low])
                form = '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"'
            else:
                x, y = ax.transData.transform(np.stack([mark.x, mark.y], 1)).T
                places = np.column_stack([x, height - y])
                form = f'<circle cx="{{:.1f}}" cy="{{:.1f}}" r="{max(REACH, mark.size / 2)}"'
            shapes += [
                f"{form.format(*place)}><title>{escape(text)}</title></{form[1:].split()[0]}>"
                for place, text in zip((places * points).tolist(), mark.hover, strict=True)
                if text and np.isfinite(place).all()
            ]
    return f'<g fill="transparent">{"".join(shapes)}</g>' if shapes else ""


def _draw_mark(ax: Axes, mark: Mark) -> None:
    name = mark.name or "_"  # matplotlib leaves such a name out of legends
    if isinstance(mark, Band):
        ax.fill_between(mark.x, mark.low, mark.high, color=mark.colour, alpha=BAND_OPACITY, linewidth=0)
        return
    if isinstance(mark, Bars):
        places = mark.left, mark.height, mark.width, mark.bottom
        ax.bar(*places, align="edge", label=name, color=mark.colour, linewidth=0)
        return
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
        rasterized=not mark.dash and len(mark.x) > MANY_POINTS,
    )
    for x, y, label in zip(mark.x, mark.y, mark.labels, strict=False):
        ax.text(x, y, label, color=mark.colour, fontsize=7, ha="center", va="center", clip_on=True)


def _format_axes(ax: Axes, panel: Panel) -> None:
    ax.set_title(textwrap.fill(panel.title, TITLE_LETTERS), fontsize=10, loc="left")
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.whole_x:
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
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
    if panel.y_limits:
        ax.set_ylim(*panel.y_limits)
    if panel.bare:
        ax.set(xticks=[], yticks=[])
        ax.spines[["top", "right"]].set_visible(True)


def _log_labels(points: Sequence[float], low: float, high: float) -> list[str]:
    """Returns labels for ascending points on a logarithmic axis; a label that would touch the one before is empty."""
    gap = (high / low) ** MIN_LOG_GAP
    labels, last = [], 0.0
    for x in points:
        free = x >= last * gap
        labels.append(f"{x:g}" if free else "")
        last = x if free else last
    return labels
