"""Draws docs/smaller.png from docs/smaller.json: `python tools/smaller.py`.

Each point is a way to smaller vectors: the bytes of a vector, and the nDCG@10 x 100 of a search,
mean of four texts. docs/results.md has the tables and their command.
"""

import json
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"

STYLES = (
    {"color": "#888888", "marker": "s"},
    {"color": "#2f6fb7", "marker": "o"},
    {"color": "#c4862f", "marker": "^", "markerfacecolor": "white"},
    {"color": "#c4862f", "marker": "^"},
    {"color": "#8a5fb0", "marker": "D", "markerfacecolor": "white"},
    {"color": "#8a5fb0", "marker": "D"},
)
"""How the ways are drawn, in the order of the file."""


def main() -> None:
    """Draws the picture."""
    encoders = json.loads((DOCS / "smaller.json").read_text("utf-8"))
    mpl.use("Agg")
    figure, panels = plt.subplots(1, 2, figsize=(9.4, 4.4), sharey=True, layout="constrained")
    for encoder, axes in zip(encoders, panels, strict=True):
        sizes = set()
        for way, style in zip(encoder["ways"], STYLES, strict=True):
            bytes_of, scores = zip(*way["points"], strict=True)
            sizes.update(bytes_of)
            axes.plot(bytes_of, scores, label=way["way"], **style)
        axes.set_title(encoder["encoder"])
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(sizes), [str(size) for size in sorted(sizes)])
        axes.set_xlabel("bytes of a vector")
        axes.spines[["right", "top"]].set_visible(False)
    panels[0].set_ylabel("nDCG@10 x 100, mean of four texts")
    panels[1].legend(loc="lower right", frameon=False)
    figure.savefig(DOCS / "smaller.png", dpi=160, facecolor="white")


if __name__ == "__main__":
    main()
