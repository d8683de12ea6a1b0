"""The report's figures, each an SVG element to stand inside an HTML page.

Invariant: a figure has no colour of its own for text, axes and grid. They are drawn in one marker colour that
becomes `currentColor`, so that the page's light, dark or printed text colour is the figure's too. Many points are
one embedded bitmap, so that a figure's size does not grow with the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from typing import Any, TypeAlias

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from isotune.evaluation.sts import correlations
from isotune.report.chart import Panel, Series, draw_panel
from isotune.report.stages import METRICS, Record, StageRecords
from isotune.report.style import BLUE, GREEN, INK, PURPLE, STYLE, VERMILION

PARTS = {"color": [GREEN, PURPLE, VERMILION] * 3, "linestyle": ["-"] * 3 + ["--"] * 3 + [":"] * 3}  # the whole is blue
Floats: TypeAlias = NDArray[np.floating[Any]]
MOST_POINTS = 1000  # in a line; more are averaged in equal blocks, which a 4.4 inch figure can't tell apart


def learning_curves(stages: Sequence[StageRecords]) -> list[str]:
    """A figure for each stage: dev scores over steps, the start as a line and the kept step ringed; below, the loss.

    Scores by one metric have the same axis in all figures. What a stage has no records of is left out.
    """
    several = len(stages) > 1
    drawn = []
    for stage in (stage for stage in stages if stage.dev or stage.train):
        rows = [kind for kind, records in (("dev", stage.dev), ("train", stage.train)) if records]
        with rc_context(STYLE):
            figure = _figure(height=4.2 if len(rows) > 1 else 2.4)
            axes = dict(zip(rows, figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0], strict=True))
            described = [f"{stage.title}."] if several else []
            if "dev" in axes:
                described.append(_dev_scores(axes["dev"], stage))
                same = [other for other in stages if other.dev and other.metric == stage.metric]
                if len(same) > 1:
                    axes["dev"].set_ylim(*_limits([100 * value for other in same for value in _dev_values(other)]))
            if "train" in axes:
                described.append(_losses(axes["train"], stage))
            axes[rows[0]].set_title(stage.title if several else "", fontsize=10, loc="left")
            axes[rows[-1]].set_xlabel("step")
            axes[rows[-1]].xaxis.get_major_locator().set_params(integer=True)
            drawn.append(svg(figure, f"learning-curve-{stage.number}", " ".join(described)))
    return drawn


def space_monitor(stages: Sequence[StageRecords]) -> list[str]:
    """A figure for each stage: mean cosine of different sentences and effective rank of the probe batch over steps."""
    panels = (
        ("mean_cosine", "mean cosine", "Mean cosine of different sentences", VERMILION),
        ("effective_rank", "effective rank", "Effective rank", GREEN),
    )
    several = len(stages) > 1
    drawn = []
    for stage in (stage for stage in stages if stage.space):
        steps = _column(stage.space, "step")
        with rc_context(STYLE):
            figure = _figure(height=3.8)
            described = [f"{stage.title}."] if several else []
            axes = figure.subplots(2, 1, sharex=True)
            for ax, (field, label, sentence, colour) in zip(axes, panels, strict=True):
                values = _column(stage.space, field)
                ax.plot(steps, values, color=colour, marker="o", markersize=4)
                ax.set_ylabel(label)
                if several:
                    ax.set_ylim(*_limits([record[field] for other in stages for record in other.space]))
                described.append(f"{sentence}: {values[0]:.3g} at step {steps[0]:.0f}, {values[-1]:.3g} at the end.")
            axes[0].set_title(stage.title if several else "", fontsize=10, loc="left")
            axes[-1].set_xlabel("step")
            axes[-1].xaxis.get_major_locator().set_params(integer=True)
            drawn.append(svg(figure, f"space-{stage.number}", " ".join(described)))
    return drawn


def cosine_against_gold(gold: Floats, panels: Mapping[str, Floats]) -> list[str]:
    """One figure an encoder, on the same axes: gold score against cosine, a point a pair (ConSERT, Figure 1).

    `gold` and each of `panels` are [N].
    """
    low = min(0.0, *(float(cosines.min()) for cosines in panels.values()))
    drawn = []
    for name, cosines in panels.items():
        panel = cosine_panel(name.capitalize(), gold, cosines)
        with rc_context(STYLE):
            figure = _figure(width=4.0, height=3.4)
            ax = figure.subplots()
            draw_panel(ax, panel)
            ax.set_ylim(low - 0.03, 1.03)
            quarter, three_quarters = np.quantile(cosines, (0.25, 0.75))
            description = (
                f"{panel.title}, cosine against gold score of {len(gold)} pairs; "
                f"half of the cosines lie between {quarter:.2f} and {three_quarters:.2f}."
            )
            drawn.append(svg(figure, f"cosines-{name}", description))
    return drawn


def cosine_panel(name: str, gold: Floats, cosines: Floats, hover: Sequence[str] = ()) -> Panel:
    """Gold scores [N] against cosines [N], with Spearman's correlation in the title."""
    both = correlations(gold, cosines)
    spearman = "Spearman undefined" if both is None else f"Spearman {100 * both[0]:.2f}"
    opacity = float(np.clip(500 / len(gold), 0.1, 0.6))
    points = Series(gold.tolist(), cosines.tolist(), marker="o", size=3.7, opacity=opacity, hover=hover)
    return Panel([points], f"{name}: {spearman}", "gold score", "cosine")


def _dev_scores(ax: Axes, stage: StageRecords) -> str:
    steps, scores = _column(stage.dev, "step"), 100 * _column(stage.dev, "score")
    ax.set_prop_cycle(**PARTS)
    for part in stage.parts:
        ax.plot(steps, 100 * _column(stage.dev, part), linewidth=1.2, label=METRICS.get(part, part))
    ax.plot(steps, scores, color=BLUE, marker="o", markersize=4, label=stage.metric if stage.parts else None)
    ax.axhline(scores[0], color=INK, linewidth=1, linestyle=(0, (4, 3)), label=f"start: {scores[0]:.2f}")
    ax.set_ylabel(f"dev {stage.metric} x 100")
    step, score = stage.kept["step"], 100 * stage.kept["score"]
    at = "its start" if step == steps[0] and stage.number > 1 else f"step {step}"
    ax.plot(
        step,
        score,
        linestyle="none",
        marker="o",
        markersize=11,
        markerfacecolor="none",
        markeredgecolor=VERMILION,
        markeredgewidth=2.2,
        clip_on=False,
        label=f"kept: {score:.2f} at {at}",
    )
    ax.legend(loc="best", ncols=2 if stage.parts else 1)
    return (
        f"Dev {stage.metric} x 100 over {len(steps)} evaluations, from {scores[0]:.2f} to {scores[-1]:.2f}. "
        f"The encoder kept is that of {at}, at {score:.2f}."
    )


def _dev_values(stage: StageRecords) -> list[float]:
    return [record[key] for record in stage.dev for key in ("score", *stage.parts)]


def _losses(ax: Axes, stage: StageRecords) -> str:
    steps, total = _thinned(_column(stage.train, "step")), _thinned(_column(stage.train, "loss"))
    if len(stage.terms) > 1:
        ax.set_prop_cycle(**PARTS)
        for term in stage.terms:
            values = _thinned(np.array([record["terms"][term] for record in stage.train]))
            ax.plot(steps, values, linewidth=1.2, label=term)
        ax.plot(steps, total, color=BLUE, label="sum")
        ax.legend(loc="best")
    else:
        ax.plot(steps, total, color=BLUE, linewidth=1.2)
    ax.set_ylabel("training loss")
    return f"Training loss from {total[0]:.3g} to {total[-1]:.3g}, up to step {steps[-1]:.0f}."


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """An axis on which all of these values are, with matplotlib's own margin."""
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 0.5
    return low - margin, high + margin


def _figure(width: float = 4.4, *, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _column(records: Sequence[Record], field: str) -> NDArray[np.float64]:
    return np.array([record[field] for record in records], float)


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values, or the means of `MOST_POINTS` blocks of them."""
    if len(values) <= MOST_POINTS:
        return values
    return np.array([block.mean() for block in np.array_split(values, MOST_POINTS)])


def svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an `<svg>` element, with ids that no other figure in the page has."""
    figure.set_facecolor("none")
    for ax in figure.axes:
        ax.set_facecolor("none")
    file = StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", dpi=200, metadata=no_metadata)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' id="', f' id="{name}-', text)
    text = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", text)
    text = text.replace(INK, "currentColor")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)
