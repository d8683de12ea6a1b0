"""Draws docs/frontier.png from docs/frontier.json: `python tools/frontier.py`.

Each point is a way to adapt all-MiniLM to the sentences of a domain: what it gained in the mean of
seventeen domains, and what it changed in the worst of them. The line joins the ways that no other
way beats in both. docs/log.md has the tables of the points.
"""

import json
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"

FARTHEST = -1.8
"""The left end of the axis; what lost more stands there with its number."""

STYLES = (
    {"color": "#2f6fb7", "marker": "*", "markersize": 17, "zorder": 3},
    {"color": "#8a5fb0", "marker": "^", "markersize": 7},
    {"color": "#2f6fb7", "marker": "o", "markersize": 6},
    {"color": "#c4862f", "marker": "s", "markersize": 5},
    {"color": "#888888", "marker": "v", "markersize": 6},
)
"""How the points of each group are drawn, in the order of the file."""


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


def main() -> None:
    """Draws the picture."""
    groups = json.loads((DOCS / "frontier.json").read_text("utf-8"))
    mpl.use("Agg")
    figure, axes = plt.subplots(figsize=(9.4, 4.6), layout="constrained")
    everything: list[Point] = []
    for group, style in zip(groups, STYLES, strict=True):
        points = [Point(**point) for point in group["points"]]
        everything += points
        worst = [max(point.worst, FARTHEST) for point in points]
        means = [point.mean for point in points]
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
    for point, below in [*((point, 5) for point in line), (recipe, -18)]:
        axes.annotate(
            point.name,
            (point.worst, point.mean),
            xytext=(-9, below),
            textcoords="offset points",
            horizontalalignment="right",
        )
    axes.axvline(0, color="black", linewidth=1)
    axes.set_xlim(FARTHEST, 0.05)
    axes.set_xlabel("change in the worst domain (points of Spearman's correlation)")
    axes.set_ylabel("mean gain of seventeen domains")
    axes.spines[["right", "top"]].set_visible(False)
    axes.legend(loc="lower left", frameon=False)
    figure.savefig(DOCS / "frontier.png", dpi=160, facecolor="white")


if __name__ == "__main__":
    main()
