"""The figures of a run's report, each an SVG element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from isotune.evaluation.sts import Floats, correlations
from isotune.report.drawing import (
    BLUE,
    GREEN,
    INK,
    PURPLE,
    RING,
    VERMILION,
    panels,
    styled,
    svg,
    whole_numbers,
)
from isotune.report.stages import MetricsRecord, StageRecords, metric_title

PART_COLOURS, PART_DASHES = (GREEN, PURPLE, VERMILION), ("-", "--", ":")  # the whole is blue
MAX_POINTS = 1000  # in a line; a longer one is averaged in equal blocks, which a 4.4 inch figure does not show
MANY_POINTS = 100  # from here on, points are a bitmap, so that the size of a page does not grow with its data
LINE: dict[str, Any] = {"linewidth": 1.8, "markersize": 4}


def learning_curves(stages: Sequence[StageRecords]) -> list[str]:
    """Draws a figure for each stage: the dev scores over the steps, and below them the training loss.

    A dashed line shows the score at the start, a ring the step that was kept. Scores by one metric have the same axis
    in all figures.
    """
    figures = []
    for stage in stages:
        drawn = [partial(_dev_scores, stage, stages)] if stage.dev else []
        drawn += [partial(_losses, stage)] if stage.train else []
        if drawn:
            figures.append(_stage_figure("learning-curve", stage, stages, drawn))
    return figures


def space_monitor(stages: Sequence[StageRecords]) -> list[str]:
    """Draws a figure for each stage: the mean cosine of different sentences and the effective rank over the steps."""
    measures = (
        ("mean_cosine", "Mean cosine of different sentences", VERMILION),
        ("effective_rank", "Effective rank", GREEN),
    )
    return [
        _stage_figure("space", stage, stages, [partial(_measure, stage, stages, *measure) for measure in measures])
        for stage in stages
        if stage.space
    ]


@styled
def cosine_against_gold(gold: Floats, encoders: Mapping[str, Floats]) -> list[str]:
    """Draws a figure for each encoder, all on the same axes: a point for each pair (ConSERT, Figure 1).

    `gold` and the cosines of each encoder are [N].
    """
    low = min(0.0, *(float(cosines.min()) for cosines in encoders.values()))
    figures = []
    for name, cosines in encoders.items():
        title = cosine_title(name.capitalize(), gold, cosines)
        figure, (ax,) = panels([title], "gold score", "cosine", size=(4.0, 3.4))
        plot_cosines(ax, gold, cosines)
        ax.set_ylim(low - 0.03, 1.03)
        quarter, three_quarters = np.quantile(cosines, (0.25, 0.75))
        description = (
            f"{title}, cosine against gold score of {len(gold)} pairs; "
            f"half of the cosines lie between {quarter:.2f} and {three_quarters:.2f}."
        )
        figures.append(svg(figure, f"cosines-{name}", description))
    return figures


def cosine_title(name: str, gold: Floats, cosines: Floats) -> str:
    """An encoder's name with Spearman's correlation of its cosines [N] with the gold scores [N]."""
    both = correlations(gold, cosines)
    return f"{name}: " + ("Spearman undefined" if both is None else f"Spearman {100 * both[0]:.2f}")


def plot_cosines(ax: Axes, gold: Floats, cosines: Floats) -> None:
    """Plots gold scores [N] against cosines [N]."""
    opacity = float(np.clip(500 / len(gold), 0.1, 0.6))
    points: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 3.7, "linestyle": "none"}
    ax.plot(gold, cosines, alpha=opacity, rasterized=len(gold) > MANY_POINTS, **points)


@styled
def _stage_figure(
    name: str, stage: StageRecords, stages: Sequence[StageRecords], drawn: Sequence[Callable[[Axes], str]]
) -> str:
    """Makes a panel for each function, which draws there and describes that; one of several stages is named."""
    title = stage.title if len(stages) > 1 else ""
    size = 4.4, 2.1 if len(drawn) > 1 else 2.4
    figure, axes = panels([title, *[""] * (len(drawn) - 1)], "step", size=size, columns=1, same="x")
    descriptions = [f"{title}."] * bool(title)
    for ax, draw in zip(axes, drawn, strict=True):
        descriptions.append(draw(ax))
        whole_numbers(ax)
        if names := ax.get_legend_handles_labels()[1]:
            ax.legend(loc="best", ncols=1 + (len(names) > 4))
    return svg(figure, f"{name}-{stage.number}", " ".join(descriptions))


def _plot_parts(ax: Axes, steps: Floats, parts: Mapping[str, Floats]) -> None:
    """Plots thin lines for what a score or loss is made of; no two of the first nine look the same."""
    for i, (name, values) in enumerate(parts.items()):
        ax.plot(steps, values, PART_DASHES[i // 3 % 3], color=PART_COLOURS[i % 3], linewidth=1.2, label=name)


def _measure(stage: StageRecords, stages: Sequence[StageRecords], key: str, title: str, colour: str, ax: Axes) -> str:
    steps, values = _column(stage.space, "step"), _column(stage.space, key)
    ax.plot(steps, values, color=colour, marker="o", **LINE)
    ax.set_ylabel(key.replace("_", " "))
    if len(stages) > 1:
        ax.set_ylim(_limits([record[key] for other in stages for record in other.space]))
    return f"{title}: {values[0]:.3g} at step {steps[0]:.0f}, {values[-1]:.3g} at the end."


def _dev_scores(stage: StageRecords, stages: Sequence[StageRecords], ax: Axes) -> str:
    steps, scores = _column(stage.dev, "step"), 100 * _column(stage.dev, "score")
    step, kept = stage.kept["step"], 100 * stage.kept["score"]
    at = "its start" if step == steps[0] and stage.number > 1 else f"step {step}"
    _plot_parts(ax, steps, {metric_title(part): 100 * _column(stage.dev, part) for part in stage.parts})
    ax.plot(steps, scores, color=BLUE, marker="o", label=stage.metric if stage.parts else "_", **LINE)
    ax.plot(steps[[0, -1]], [scores[0]] * 2, "--", color=INK, linewidth=1, label=f"start: {scores[0]:.2f}")
    ax.plot([step], [kept], color=VERMILION, markersize=11, label=f"kept: {kept:.2f} at {at}", **RING)
    ax.set_ylabel(f"dev {stage.metric} x 100")
    same = [other for other in stages if other.dev and other.metric == stage.metric]
    if len(same) > 1:
        ax.set_ylim(
            _limits([100 * record[key] for other in same for record in other.dev for key in ("score", *other.parts)])
        )
    return (
        f"Dev {stage.metric} x 100 over {len(steps)} evaluations, from {scores[0]:.2f} to {scores[-1]:.2f}. "
        f"The encoder kept is that of {at}, at {kept:.2f}."
    )


def _losses(stage: StageRecords, ax: Axes) -> str:
    steps, total = _thinned(_column(stage.train, "step")), _thinned(_column(stage.train, "loss"))
    several = len(stage.terms) > 1
    terms = {term: np.array([record["terms"][term] for record in stage.train]) for term in stage.terms if several}
    _plot_parts(ax, steps, {term: _thinned(values) for term, values in terms.items()})
    ax.plot(steps, total, color=BLUE, linewidth=1.8 if several else 1.2, label="sum" if several else "_")
    ax.set_ylabel("training loss")
    return f"Training loss from {total[0]:.3g} to {total[-1]:.3g}, up to step {steps[-1]:.0f}."


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Returns the limits of an axis that holds all values, with a margin."""
    low, high = min(values), max(values)
    margin = 0.08 * (high - low) or 0.5
    return low - margin, high + margin


def _column(records: Sequence[MetricsRecord], key: str) -> NDArray[np.float64]:
    return np.array([record[key] for record in records], float)


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the values, or the means of `MAX_POINTS` blocks of them if there are more."""
    return np.array([block.mean() for block in np.array_split(values, min(len(values), MAX_POINTS))])
