"""Draws docs/frontier.png from docs/frontier.json: `python tools/frontier.py`.

Each point is a way to adapt an encoder to the sentences of a domain: what it gained in the mean of
seventeen domains, and what it changed in the worst of them. The line joins the ways that no other
way beats in both. docs/log.md has the tables of the points.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

DOCS = Path(__file__).parents[1] / "docs"

FARTHEST = -1.8
"""The left end of the axis; what lost more stands there with its number."""

STYLES: dict[str, dict[str, Any]] = {
    "adapt, three seeds": {"color": "#2f6fb7", "marker": "*", "markersize": 17, "zorder": 3},
    "soft targets or boldness, limit 0": {"color": "#8a5fb0", "marker": "^", "markersize": 7},
    "temperature and steps, limit 0": {"color": "#2f6fb7", "marker": "o", "markersize": 6},
    "temperature and steps, limit 0.1": {"color": "#c4862f", "marker": "s", "markersize": 5},
    "temperature and steps, no limit": {"color": "#888888", "marker": "v", "markersize": 6},
}
"""How the points of each group of the file are drawn."""


class Point(NamedTuple):
    """A way to adapt."""

    worst: float
    """The change in the worst domain, Spearman x 100."""

    mean: float
    """The mean change over the domains."""

    name: str


def unbeaten(points: list[Point]) -> list[Point]:
    """The points that no other beats in mean and worst, from the safest to the boldest."""
    found: list[Point] = []
    for point in sorted(points, key=lambda each: (-each.worst, -each.mean)):
        if not found or point.mean > found[-1].mean:
            found.append(point)
    return found


def draw(axes: Axes, groups: list[dict[str, Any]]) -> None:
    """Draws the points of an encoder, and the line of those that no other point beats."""
    everything: list[Point] = []
    for group in groups:
        points = [Point(**point) for point in group["points"]]
        everything += points
        worst = [max(point.worst, FARTHEST) for point in points]
        means = [point.mean for point in points]
        style = STYLES[group["group"]]
        axes.plot(worst, means, linestyle="none", label=group["group"], clip_on=False, **style)
        for point in points:
            if point.worst < FARTHEST:
                axes.annotate(
                    f"← {point.worst:g} ({point.name})",
                    (FARTHEST, point.mean),
                    xytext=(8, 0),
                    textcoords="offset points",
                    verticalalignment="center",
                )
    line = unbeaten(everything)
    axes.plot([point.worst for point in line], [point.mean for point in line], color="#bbbbbb")
    # The first group is the recipe of today.
    recipe = everything[0]
    others = [(point, 5) for point in line if point != recipe]
    for point, below in [*others, (recipe, -18)]:
        axes.annotate(
            point.name,
            (point.worst, point.mean),
            xytext=(-9, below),
            textcoords="offset points",
            horizontalalignment="right",
        )
    axes.axvline(0, color="black", linewidth=1)
    axes.set_xlim(FARTHEST, 0.05)
    axes.set_ylabel("mean gain of seventeen domains")
    axes.spines[["right", "top"]].set_visible(False)


def main() -> None:
    """Draws the picture."""
    encoders = json.loads((DOCS / "frontier.json").read_text("utf-8"))
    mpl.use("Agg")
    height = 4.6 * len(encoders)
    figure, grid = plt.subplots(
        len(encoders), figsize=(9.4, height), layout="constrained", sharex=True, squeeze=False
    )
    column = grid[:, 0]
    for axes, (name, groups) in zip(column, encoders.items(), strict=True):
        draw(axes, groups)
        axes.set_title(name)
    # The first encoder has points of all groups.
    column[0].legend(loc="lower left", frameon=False)
    column[-1].set_xlabel("change in the worst domain (points of Spearman's correlation)")
    figure.savefig(DOCS / "frontier.png", dpi=160, facecolor="white")


if __name__ == "__main__":
    main()
