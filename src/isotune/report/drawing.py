"""What all figures share: panels, colours and legends, in matplotlib.

A figure becomes a PNG for paper, or an SVG element for an HTML page.

Text, axes and grid of an SVG are drawn in one marker colour that becomes `currentColor`, so they
take the page's text colour, light, dark or printed. Data is in those of Okabe and Ito's colours
that keep a contrast of 3 to 1 on both white and near black. Colour never stands alone: series
differ in dash and marker too. What draws or saves is `styled`.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from matplotlib import rc_context, rc_params_from_file
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isotune.files import atomic_write

BLUE = "#0072B2"
VERMILION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"

INK = "#010203"
"""The colour of text, axes and grid; in an SVG it becomes the text colour of the page."""

LETTER_WIDTH = 0.07
"""The width in inches of a letter in a legend."""

TITLE_LETTERS = 38
"""The letters in a line of a panel's title."""

PNG_DPI = 300
BITMAP_DPI = 200

styled = rc_context(
    rc_params_from_file(Path(__file__).with_name("figures.mplstyle"), use_default_template=False)
)
"""Decorates functions that draw or save.

Matplotlib makes some parts of a figure only when it is saved.
"""

RING: dict[str, Any] = {
    "marker": "o",
    "linestyle": "none",
    "markerfacecolor": "none",
    "markeredgewidth": 2,
}
"""Keywords of `Axes.plot` for a ring."""


def look(place: int) -> dict[str, Any]:
    """Keywords of `Axes.plot` for series number `place`, from 0.

    Neighbours differ in all keywords; none of the first 12 is repeated.
    """
    return {
        "color": (BLUE, VERMILION, GREEN, PURPLE)[place % 4],
        "linestyle": ("-", "--", ":")[(place + place // 4) % 3],
        "marker": "os^D"[place % 4],
    }


@styled
def panels(
    titles: Sequence[str],
    x_label: str = "",
    y_label: str = "",
    *,
    size: tuple[float, float] = (3.4, 3.0),
    columns: int = 2,
    same: Literal["axes", "x", ""] = "axes",
) -> tuple[Figure, list[Axes]]:
    """Makes a figure with a panel of some inches for each title, row by row.

    Axes that have the `same` limits in all panels have a label at the lowest and the leftmost
    panels only.
    """
    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    shares_y = same == "axes"
    grid = figure.subplots(rows, columns, sharex=bool(same), sharey=shares_y, squeeze=False)
    axes = list(grid.ravel())
    used = axes[: len(titles)]
    for i, (ax, title) in enumerate(zip(used, titles, strict=True)):
        ax.set_title(textwrap.fill(title, TITLE_LETTERS), fontsize=10, loc="left")
        is_lowest = i + columns >= len(titles)
        has_x_label = is_lowest or not same
        ax.tick_params(labelbottom=has_x_label)
        if has_x_label:
            ax.set_xlabel(x_label)
        is_leftmost = i % columns == 0
        if is_leftmost or not shares_y:
            ax.set_ylabel(y_label)
    for ax in axes[len(titles) :]:
        ax.remove()
    return figure, used


@styled
def legend_below(figure: Figure) -> Figure:
    """Puts one legend of all panels below them, and returns the figure."""
    entries: dict[str, Artist] = {}
    for ax in figure.axes:
        handles, names = ax.get_legend_handles_labels()
        entries |= dict(zip(names, handles, strict=True))
    if entries:
        width = LETTER_WIDTH * (5 + max(map(len, entries)))
        across = int(figure.get_figwidth() / width)
        columns = max(1, min(across, len(entries)))
        figure.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=columns
        )
    return figure


def whole_numbers(ax: Axes) -> None:
    """Gives the x axis whole numbers only."""
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))


def names_down(ax: Axes, names: Sequence[str]) -> None:
    """Writes names at 0, 1, ... of the y axis, from the top down."""
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_ylim(len(names) - 0.5, -0.5)


@styled
def save_png(figure: Figure, path: Path, dpi: int = PNG_DPI) -> None:
    """Writes the figure as a PNG, by default at a printer's resolution."""
    with atomic_write(path) as part, any_script():
        figure.savefig(part, format="png", dpi=dpi)


@contextmanager
def any_script() -> Iterator[None]:
    """Lets a figure have letters that matplotlib's font lacks, which it draws as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


@styled
def svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an `<svg>` with a description.

    `name` tells its ids from those of the page's other figures.
    """
    file = StringIO()
    figure.set_facecolor("none")
    for ax in figure.axes:
        ax.set_facecolor("none")
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with any_script():
        figure.savefig(file, format="svg", dpi=BITMAP_DPI, metadata=no_metadata)
    text = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}-", file.getvalue())
    text = text.replace(INK, "currentColor")
    _, _, element = text.partition("<svg ")
    return f'<svg role="img" aria-label="{escape(description)}" {element}'
