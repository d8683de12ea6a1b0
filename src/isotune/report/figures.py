"""The report's figures, each an SVG element to stand inside an HTML page.

Invariant: a figure has no colour of its own for text, axes and grid. They are drawn in one marker colour that
becomes `currentColor`, so that the page's light, dark or printed text colour is the figure's too; data is in
those of Okabe and Ito's colours that keep a contrast of 3 to 1 on both white and near black. Many points are
one embedded bitmap, so that a figure's size does not grow with the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType
from numpy.typing import NDArray

from isotune.evaluation.sts import correlations

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
INK = "#010203"  # becomes currentColor
MOST_POINTS = 1000  # in a line; more are averaged in equal blocks, which a 4.4 inch figure can't tell apart

STYLE: dict[RcKeyType, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
}

Record = Mapping[str, Any]


def learning_curve(train: Sequence[Record], dev: Sequence[Record], kept_step: int) -> str:
    """Dev score over steps with the start as a line and the kept step marked; the loss and its terms below.

    `train` and `dev` are records of metrics.jsonl in step order, `dev` from before the first step on; without
    `dev` records the loss stands alone.
    """
    with rc_context(STYLE):
        figure = _figure(height=4.2 if dev else 2.4)
        axes = figure.subplots(2 if dev else 1, 1, sharex=True, squeeze=False)[:, 0]
        described = []
        if dev:
            described.append(_dev_scores(axes[0], dev, kept_step))
        described.append(_losses(axes[-1], train))
        axes[-1].set_xlabel("step")
        return _svg(figure, "learning-curve", " ".join(described))


def space_monitor(space: Sequence[Record]) -> str:
    """Mean cosine of different sentences and effective rank of the probe batch over steps."""
    steps = _column(space, "step")
    panels = (
        ("mean_cosine", "mean cosine", "Mean cosine of different sentences", VERMILION),
        ("effective_rank", "effective rank", "Effective rank", GREEN),
    )
    with rc_context(STYLE):
        figure = _figure(height=3.8)
        described = []
        for ax, (field, label, sentence, colour) in zip(figure.subplots(2, 1, sharex=True), panels, strict=True):
            values = _column(space, field)
            ax.plot(steps, values, color=colour, marker="o", markersize=4)
            ax.set_ylabel(label)
            described.append(f"{sentence}: {values[0]:.3g} at step {steps[0]:.0f}, {values[-1]:.3g} at the end.")
        ax.set_xlabel("step")
        return _svg(figure, "space", " ".join(described))


def cosine_against_gold(gold: NDArray[np.floating[Any]], panels: Mapping[str, NDArray[np.floating[Any]]]) -> list[str]:
    """One figure an encoder, on the same axes: gold score against cosine, a point a pair (ConSERT, Figure 1).

    `gold` and each of `panels` are [N].
    """
    everything = np.concatenate(list(panels.values()))
    low = min(0.0, float(everything.min()))
    drawn = []
    for name, cosines in panels.items():
        both = correlations(gold, cosines)
        spearman = "Spearman undefined" if both is None else f"Spearman {100 * both[0]:.2f}"
        with rc_context(STYLE):
            figure = _figure(width=4.0, height=3.4)
            ax = figure.subplots()
            ax.scatter(
                gold,
                cosines,
                s=14,
                color=BLUE,
                alpha=float(np.clip(500 / len(gold), 0.1, 0.6)),
                linewidths=0,
                rasterized=True,
            )
            ax.set_ylim(low - 0.03, 1.03)
            ax.set_title(f"{name.capitalize()}: {spearman}", fontsize=10, loc="left")
            ax.set_xlabel("gold score")
            ax.set_ylabel("cosine")
            quarter, three_quarters = np.quantile(cosines, (0.25, 0.75))
            description = (
                f"{name.capitalize()}: cosine against gold score of {len(gold)} pairs, {spearman}; "
                f"half of the cosines lie between {quarter:.2f} and {three_quarters:.2f}."
            )
            drawn.append(_svg(figure, f"cosines-{name}", description))
    return drawn


def _dev_scores(ax: Axes, dev: Sequence[Record], kept_step: int) -> str:
    metric = dev[0]["metric"].title()
    steps, scores = _column(dev, "step"), 100 * _column(dev, "score")
    ax.plot(steps, scores, color=BLUE, marker="o", markersize=4)
    ax.axhline(scores[0], color=INK, linewidth=1, linestyle=(0, (4, 3)), label=f"start: {scores[0]:.2f}")
    ax.set_ylabel(f"dev {metric} x 100")
    text = f"Dev {metric} x 100 over {len(dev)} evaluations, from {scores[0]:.2f} to {scores[-1]:.2f}."
    kept = steps == kept_step
    if kept.any():
        score = scores[kept][-1]
        ax.plot(
            kept_step,
            score,
            linestyle="none",
            marker="o",
            markersize=11,
            markerfacecolor="none",
            markeredgecolor=VERMILION,
            markeredgewidth=2.2,
            clip_on=False,
            label=f"kept: {score:.2f} at step {kept_step}",
        )
        text += f" The encoder kept is that of step {kept_step}, at {score:.2f}."
    ax.legend(loc="best")
    return text


def _losses(ax: Axes, train: Sequence[Record]) -> str:
    steps, total = _thinned(_column(train, "step")), _thinned(_column(train, "loss"))
    terms = list(dict.fromkeys(term for record in train for term in record["terms"]))  # a stage has its own
    if len(terms) > 1:
        ax.set_prop_cycle(color=[GREEN, PURPLE, VERMILION] * 3, linestyle=["-"] * 3 + ["--"] * 3 + [":"] * 3)
        for term in terms:
            values = _thinned(np.array([record["terms"].get(term, np.nan) for record in train]))
            ax.plot(steps, values, linewidth=1.2, label=term)
        ax.plot(steps, total, color=BLUE, label="sum")
        ax.legend(loc="best")
    else:
        ax.plot(steps, total, color=BLUE, linewidth=1.2)
    ax.set_ylabel("training loss")
    return f"Training loss from {total[0]:.3g} to {total[-1]:.3g} over {steps[-1]:.0f} steps."


def _figure(width: float = 4.4, *, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", facecolor="none")


def _column(records: Sequence[Record], field: str) -> NDArray[np.float64]:
    return np.array([record[field] for record in records], float)


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values, or the means of `MOST_POINTS` blocks of them."""
    if len(values) <= MOST_POINTS:
        return values
    return np.array([block.mean() for block in np.array_split(values, MOST_POINTS)])


def _svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an `<svg>` element, with ids that no other figure in the page has."""
    for ax in figure.axes:
        ax.set_facecolor("none")
    file = StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", dpi=200, metadata=no_metadata)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r' id="', f' id="{name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = svg.replace(INK, "currentColor")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)
