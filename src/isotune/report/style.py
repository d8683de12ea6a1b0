"""The look that all figures share: colours, the order in which series take them, matplotlib's settings.

Data is in those of Okabe and Ito's colours that keep a contrast of 3 to 1 on both white and near black. Colour never
stands alone: series differ in dash and marker too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.typing import RcKeyType

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
INK = "#010203"  # of text, axes and grid; in an SVG it becomes the text colour of the page
BAND_OPACITY = 0.18


class Look(NamedTuple):
    """How a series is told from the others: a colour, and matplotlib's signs for its dash and marker."""

    colour: str
    dash: str
    marker: str


def look(place: int) -> Look:
    """The look of series number `place`, from 0: neighbours differ in all three, and none repeats before twelve."""
    colours, markers = (BLUE, VERMILION, GREEN, PURPLE), "os^D"
    return Look(colours[place % 4], ("-", "--", ":")[(place + place // 4) % 3], markers[place % 4])


STYLE: dict[RcKeyType, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
}
