"""The figures of a run's report, each an SVG element. The page's tables have their numbers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from isotune.evaluation.sts import correlations
from isotune.evaluation.vectors import Floats
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
from isotune.report.stages import METRIC_TITLES, MetricsRecord, StageRecords

PART_COLOURS, PART_DASHES = (GREEN, PURPLE, VERMILION), ("-", "--", ":")  # the whole is blue
MAX_POINTS = 1000  # in a line; a longer one is averaged in equal blocks, which a 4.4 inch figure does not show
MANY_POINTS = (
    100  # from here on, points are a bitmap, so that the size of a page does not grow with its data
)
LINE: dict[str, Any] = {"marker": "o", "linewidth": 1.8, "markersize": 4}
Draw = Callable[[StageRecords, Axes], None]


def learning_curves(stages: Sequence[StageRecords]) -> list[str]:
    """Draws each stage's dev scores and loss; a dashed line is the score at the start, a ring the step kept."""
    drawn = [
        [*([_dev_scores] if stage.dev else []), *([_losses] if stage.train else [])]
        for stage in stages
    ]
    both = zip(stages, drawn, strict=True)
    return [
        _stage_figure("learning-curve", stage, len(stages) > 1, draws)
        for stage, draws in both
        if draws
    ]


def space_monitor(stages: Sequence[StageRecords]) -> list[str]:
    """Draws a figure for each stage: the mean cosine of different sentences and the effective rank over the steps."""
    drawn = [
        partial(_measure, "mean_cosine", VERMILION),
        partial(_measure, "effective_rank", GREEN),
    ]
    return [
        _stage_figure("space", stage, len(stages) > 1, drawn) for stage in stages if stage.space
    ]


def before_and_after(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Draws cosine against gold score, of the encoders before and after training; the arrays are those of a run."""
    both = {name.capitalize(): (arrays["gold"], arrays[name]) for name in ("before", "after")}
    return svg(
        cosines_against_gold(both),
        "cosines",
        "Cosine against gold score of each pair, before and after",
    )


@styled
def cosines_against_gold(encoders: Mapping[str, tuple[Floats, Floats]]) -> Figure:
    """Draws a panel for each encoder: its cosines [N] against gold scores [N], a point a pair (ConSERT, Figure 1)."""
    titles = []
    for name, (gold, cosines) in encoders.items():
        both = correlations(gold, cosines)
        titles.append(
            f"{name}: "
            + ("Spearman undefined" if both is None else f"Spearman {100 * both[0]:.2f}")
        )
    figure, axes = panels(titles, "gold score", "cosine")
    points: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 3.7, "linestyle": "none"}
    for ax, (gold, cosines) in zip(axes, encoders.values(), strict=True):
        opacity = float(np.clip(500 / len(gold), 0.1, 0.6))
        ax.plot(gold, cosines, alpha=opacity, rasterized=len(gold) > MANY_POINTS, **points)
    return figure


@styled
def _stage_figure(name: str, stage: StageRecords, named: bool, drawn: Sequence[Draw]) -> str:
    title = stage.title if named else ""
    size = 4.4, 2.1 if len(drawn) > 1 else 2.4
    figure, axes = panels([title, *[""] * (len(drawn) - 1)], "step", size=size, columns=1, same="x")
    for ax, draw in zip(axes, drawn, strict=True):
        draw(stage, ax)
        whole_numbers(ax)
        if names := ax.get_legend_handles_labels()[1]:
            ax.legend(loc="best", ncols=1 + (len(names) > 4))
    measured = " and ".join(ax.get_ylabel() for ax in axes)
    return svg(figure, f"{name}-{stage.number}", f"{stage.title}: {measured} over the steps")


def _plot_parts(ax: Axes, steps: Floats, parts: Mapping[str, Floats]) -> None:
    for i, (name, values) in enumerate(parts.items()):
        ax.plot(
            steps,
            values,
            PART_DASHES[i // 3 % 3],
            color=PART_COLOURS[i % 3],
            linewidth=1.2,
            label=name,
        )


def _measure(key: str, colour: str, stage: StageRecords, ax: Axes) -> None:
    ax.plot(_column(stage.space, "step"), _column(stage.space, key), color=colour, **LINE)
    ax.set_ylabel(key.replace("_", " "))


def _dev_scores(stage: StageRecords, ax: Axes) -> None:
    steps, scores = _column(stage.dev, "step"), 100 * _column(stage.dev, "score")
    step, kept = stage.kept["step"], 100 * stage.kept["score"]
    at = "its start" if step == steps[0] and stage.number > 1 else f"step {step}"
    _plot_parts(
        ax,
        steps,
        {METRIC_TITLES.get(part, part): 100 * _column(stage.dev, part) for part in stage.parts},
    )
    ax.plot(steps, scores, color=BLUE, label=stage.metric if stage.parts else "_", **LINE)
    ax.plot(
        steps[[0, -1]],
        [scores[0]] * 2,
        "--",
        color=INK,
        linewidth=1,
        label=f"start: {scores[0]:.2f}",
    )
    ax.plot(
        [step], [kept], color=VERMILION, markersize=11, label=f"kept: {kept:.2f} at {at}", **RING
    )
    ax.set_ylabel(f"dev {stage.metric} x 100")


def _losses(stage: StageRecords, ax: Axes) -> None:
    steps, total = _thinned(_column(stage.train, "step")), _thinned(_column(stage.train, "loss"))
    several = len(stage.terms) > 1
    terms = {
        term: np.array([record["terms"][term] for record in stage.train])
        for term in stage.terms
        if several
    }
    _plot_parts(ax, steps, {term: _thinned(values) for term, values in terms.items()})
    marker = "o" if len(total) == 1 else ""  # a line of one point can't be seen
    ax.plot(
        steps,
        total,
        marker=marker,
        color=BLUE,
        linewidth=1.8 if several else 1.2,
        label="sum" if several else "_",
    )
    ax.set_ylabel("training loss")


def _column(records: Sequence[MetricsRecord], key: str) -> NDArray[np.float64]:
    return np.array([record[key] for record in records], float)


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array(
        [block.mean() for block in np.array_split(values, min(len(values), MAX_POINTS))]
    )
