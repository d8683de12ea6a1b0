"""Draws docs/gains.png from docs/gains.json: `python tools/gains.py`.

Each row is a kind of data that users have, and what a run gained on such data: the change of a
score x 100, and its 95 % interval. Small dots are what other texts of this kind gained.
docs/results.md has the command of each row.
"""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
BLUE = "#2f6fb7"
GREY = "#666666"


def words_of(gain: dict[str, Any]) -> str:
    """The scores of a row, beside its interval."""
    if "before" in gain:
        return f"{gain['before']:g} → {gain['after']:g}"
    return f"{gain['change']:+.2f}"


def change_of(gain: dict[str, Any]) -> float:
    """How much a row gained."""
    if "before" in gain:
        return float(gain["after"] - gain["before"])
    return float(gain["change"])


def main() -> None:
    """Draws the picture."""
    gains = json.loads((DOCS / "gains.json").read_text("utf-8"))
    mpl.use("Agg")
    figure, axes = plt.subplots(figsize=(9.4, 3.6), layout="constrained")
    for row, gain in enumerate(gains):
        change = change_of(gain)
        farthest = max([gain["high"], *gain["others"]])
        axes.plot([gain["low"], gain["high"]], [row, row], color=BLUE, linewidth=3, alpha=0.45)
        axes.plot(gain["others"], [row] * len(gain["others"]), "o", color=GREY, markersize=4)
        axes.plot([change], [row], "o", color=BLUE, markersize=8)
        axes.annotate(
            words_of(gain),
            (farthest, row),
            xytext=(8, 0),
            textcoords="offset points",
            verticalalignment="center",
        )
        axes.annotate(
            gain["have"],
            (-0.6, row),
            xytext=(-8, 6),
            textcoords="offset points",
            horizontalalignment="right",
            verticalalignment="center",
            fontweight="bold",
        )
        axes.annotate(
            gain["of"],
            (-0.6, row),
            xytext=(-8, -7),
            textcoords="offset points",
            horizontalalignment="right",
            verticalalignment="center",
            fontsize="small",
            color=GREY,
        )
    axes.axvline(0, color="black", linewidth=1)
    axes.set_xlim(-0.6, 33.5)
    axes.set_ylim(len(gains) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.set_xlabel("points gained, with the 95 % interval")
    figure.savefig(DOCS / "gains.png", dpi=160, facecolor="white")


if __name__ == "__main__":
    main()
