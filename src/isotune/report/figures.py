"""The figures of a run's report, each an SVG element. The page's tables have their numbers."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from isotune.evaluation.run_results import Gain
from isotune.evaluation.sts import correlations
from isotune.evaluation.vectors import Floats
from isotune.report.drawing import (
    BLUE,
    GREEN,
    INK,
    PURPLE,
    RING,
    TITLE_LETTERS,
    VERMILION,
    legend_below,
    look,
    names_down,
    panels,
    styled,
    svg,
    whole_numbers,
)
from isotune.report.stages import METRIC_TITLES, MetricsRecord, StageRecords
from isotune.report.verdict import change_words, gain_sentence, gain_title

PART_COLOURS = (GREEN, PURPLE, VERMILION)
"""The colours of the parts of a sum; the sum is blue."""

PART_DASHES = ("-", "--", ":")

MAX_POINTS = 1000
"""A line of more points is averaged in equal blocks, which a 4.4 inch figure does not show."""

MANY_POINTS = 100
"""More points are a bitmap, so that the size of a page does not grow with its data."""

FEWEST_POINTS = 3
"""Fewer points are no curve. The words of the stage have their numbers."""

NAME_LETTERS = 22
"""The letters in a line of a task's name."""

LINE: dict[str, Any] = {"marker": "o", "linewidth": 1.8, "markersize": 4}
Draw = Callable[[StageRecords, Axes], None]


def gains(found: Sequence[Gain]) -> str:
    """Draws the differences from the start on one axis, as bars of their 95 % intervals."""
    description = " ".join(map(gain_sentence, found))
    return svg(_gains_figure(found), "gains", description)


@styled
def _gains_figure(found: Sequence[Gain]) -> Figure:
    height = 0.7 + 0.5 * len(found)
    figure, (ax,) = panels([""], "difference from the start, in points", size=(4.6, height))
    draw_gains(ax, found)
    for place, gain in enumerate(found):
        title = textwrap.shorten(gain_title(gain), TITLE_LETTERS + 8, placeholder=" ...")
        # The name stands above the bar, so that long ones leave the axis its width.
        ax.annotate(
            f"{title}: {change_words(gain.before, gain.after)}",
            (0, place),
            xycoords=("axes fraction", "data"),
            xytext=(0, 8),
            textcoords="offset points",
            fontsize=9,
        )
    ax.set_ylim(len(found) - 0.6, -0.7)
    return figure


def draw_gains(ax: Axes, found: Sequence[Gain], thickness: float = 6) -> None:
    """Draws each difference from the start as a point, with its interval as a bar, from the top."""
    rows = np.arange(len(found))
    ax.vlines(np.zeros(len(found)), rows - 0.13, rows + 0.13, color=INK, linewidth=1.5)
    ends = [0.0]
    for place, gain in enumerate(found):
        difference = 100 * (gain.after - gain.before)
        ends.append(difference)
        if gain.low is not None and gain.high is not None:
            interval = [100 * gain.low, 100 * gain.high]
            ends += interval
            ax.plot(
                interval,
                [place, place],
                color=_gain_colour(gain),
                linewidth=thickness,
                solid_capstyle="butt",
                alpha=0.55,
            )
        ax.plot([difference], [place], color=INK, marker="o", markersize=1.2 * thickness)
    margin = 0.06 * (max(ends) - min(ends)) or 1
    ax.set_xlim(min(ends) - margin, max(ends) + margin)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_formatter(_difference_words)


def _difference_words(value: float, _: float) -> str:
    """A difference beside its tick."""
    if not value:
        return "the start"
    return f"{value:+g}"


def _gain_colour(gain: Gain) -> str:
    """Green for a gain beyond chance, vermilion for a loss beyond chance, else blue."""
    if gain.low is not None and gain.low > 0:
        return GREEN
    if gain.high is not None and gain.high < 0:
        return VERMILION
    return BLUE


def on_one_axis(scores: Mapping[str, tuple[float, float]]) -> str:
    """Draws the scores before and after of each title on one axis.

    It is empty with a single title, whose difference is drawn anyway.
    """
    if len(scores) < 2:
        return ""
    parts = [f"{name} {100 * old:.2f} to {100 * new:.2f}" for name, (old, new) in scores.items()]
    return svg(_axis_figure(scores), "scores", f"Scores before and after: {', '.join(parts)}")


@styled
def _axis_figure(scores: Mapping[str, tuple[float, float]]) -> Figure:
    figure, (ax,) = panels([""], "score x 100", size=(4.6, 0.9 + 0.3 * len(scores)))
    names_down(ax, [textwrap.fill(name, NAME_LETTERS) for name in scores])
    rows = list(range(len(scores)))
    before = [100 * old for old, _ in scores.values()]
    after = [100 * new for _, new in scores.values()]
    ax.hlines(rows, before, after, color=INK, alpha=0.45, linewidth=1.5)
    ax.plot(before, rows, color=INK, markersize=7, label="before", **RING)
    ax.plot(after, rows, color=GREEN, marker="o", markersize=8, linestyle="none", label="after")
    return legend_below(figure)


def learning_curves(stages: Sequence[StageRecords]) -> list[str]:
    """Draws each stage's dev scores and loss, where there are enough for a curve.

    A dashed line is the score at the start, a ring the step kept.
    """
    figures = []
    for stage in stages:
        draws = []
        if len(stage.dev) >= FEWEST_POINTS:
            draws.append(_draw_dev_scores)
        if len(stage.train) >= FEWEST_POINTS:
            draws.append(_draw_losses)
        if draws:
            figures.append(_stage_figure("learning-curve", stage, len(stages) > 1, draws))
    return figures


def space_monitor(stages: Sequence[StageRecords]) -> list[str]:
    """Draws a figure for each stage with enough records for a curve.

    It shows the mean cosine of different sentences and the effective rank over the steps.
    """
    draws = [
        partial(_draw_measure, "mean_cosine", VERMILION),
        partial(_draw_measure, "effective_rank", GREEN),
    ]
    measured = [stage for stage in stages if len(stage.space) >= FEWEST_POINTS]
    return [_stage_figure("space", stage, len(stages) > 1, draws) for stage in measured]


def before_and_after(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Draws cosine against gold score, of the encoders before and after training.

    The arrays are those of a run.
    """
    gold = arrays["gold"]
    encoders = {"Before": (gold, arrays["before"]), "After": (gold, arrays["after"])}
    description = "Cosine against gold score of each pair, before and after"
    return svg(cosines_against_gold(encoders), "cosines", description)


@styled
def cosines_against_gold(encoders: Mapping[str, tuple[Floats, Floats]]) -> Figure:
    """Draws a panel for each encoder: its cosines [N] against gold scores [N] (ConSERT, Figure 1).

    Each point is a pair.
    """
    titles = [_title(name, gold, cosines) for name, (gold, cosines) in encoders.items()]
    figure, axes = panels(titles, "gold score", "cosine")
    points: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 3.7, "linestyle": "none"}
    for ax, (gold, cosines) in zip(axes, encoders.values(), strict=True):
        opacity = float(np.clip(500 / len(gold), 0.1, 0.6))
        ax.plot(gold, cosines, alpha=opacity, rasterized=len(gold) > MANY_POINTS, **points)
    return figure


@styled
def scores_by_speed(scores: Mapping[str, float], speeds: Mapping[str, float], score: str) -> Figure:
    """Draws the score of each encoder, in [0, 1], against the sentences that it encodes a second.

    `score` is the title of the score.
    """
    figure, (ax,) = panels(
        [""], "sentences a second, one thread", f"{score} x 100", size=(5.6, 3.8)
    )
    for number, (name, value) in enumerate(scores.items()):
        style = look(number) | {"linestyle": "none"}
        ax.plot([speeds[name]], [100 * value], label=name, markersize=8, **style)
    ax.set_xscale("log")
    return legend_below(figure)


def _title(name: str, gold: Floats, cosines: Floats) -> str:
    """The title of an encoder's panel, with Spearman's correlation x 100."""
    correlation = correlations(gold, cosines)
    if correlation is None:
        return f"{name}: Spearman undefined"
    spearman, _ = correlation
    return f"{name}: Spearman {100 * spearman:.2f}"


@styled
def _stage_figure(name: str, stage: StageRecords, named: bool, draws: Sequence[Draw]) -> str:
    """Draws panels of a stage below each other; a stage that is `named` has its title above."""
    titles = [""] * len(draws)
    if named:
        titles[0] = stage.title
    size = (4.4, 2.4)
    if len(draws) > 1:
        size = (4.4, 2.1)
    figure, axes = panels(titles, "step", size=size, columns=1, same="x")
    for ax, draw in zip(axes, draws, strict=True):
        draw(stage, ax)
        whole_numbers(ax)
        _, labels = ax.get_legend_handles_labels()
        if labels:
            ax.legend(loc="best", ncols=2 if len(labels) > 4 else 1)
    y_labels = " and ".join(ax.get_ylabel() for ax in axes)
    return svg(figure, f"{name}-{stage.number}", f"{stage.title}: {y_labels} over the steps")


def _plot_parts(ax: Axes, steps: Floats, parts: Mapping[str, Floats]) -> None:
    """Draws the parts of a sum, which differ in colour, or else in dash."""
    for i, (name, values) in enumerate(parts.items()):
        dash = PART_DASHES[i // 3 % 3]
        ax.plot(steps, values, dash, color=PART_COLOURS[i % 3], linewidth=1.2, label=name)


def _draw_measure(key: str, colour: str, stage: StageRecords, ax: Axes) -> None:
    """Draws a measure of the space over the steps."""
    ax.plot(_column(stage.space, "step"), _column(stage.space, key), color=colour, **LINE)
    ax.set_ylabel(key.replace("_", " "))


def _draw_dev_scores(stage: StageRecords, ax: Axes) -> None:
    """Draws the dev score and its parts over the steps, the start's score, and the step kept."""
    steps = _column(stage.dev, "step")
    scores = 100 * _column(stage.dev, "score")
    parts = {}
    for part in stage.parts:
        parts[METRIC_TITLES.get(part, part)] = 100 * _column(stage.dev, part)
    _plot_parts(ax, steps, parts)
    # Matplotlib leaves a label that begins with _ out of the legend.
    label = "_"
    if parts:
        label = stage.metric
    ax.plot(steps, scores, color=BLUE, label=label, **LINE)
    start = scores[0]
    ends = steps[[0, -1]]
    ax.plot(ends, [start] * 2, "--", color=INK, linewidth=1, label=f"start: {start:.2f}")
    step = stage.kept["step"]
    kept_score = 100 * stage.kept["score"]
    label = f"kept: {kept_score:.2f} at {stage.place_of_kept}"
    ax.plot([step], [kept_score], color=VERMILION, markersize=11, label=label, **RING)
    ax.set_ylabel(f"dev {stage.metric} x 100")


def _draw_losses(stage: StageRecords, ax: Axes) -> None:
    """Draws the training loss over the steps, and its terms if there are several."""
    steps = _thinned(_column(stage.train, "step"))
    total = _thinned(_column(stage.train, "loss"))
    label = "_"
    width = 1.2
    if len(stage.terms) > 1:
        label = "sum"
        width = 1.8
        terms = {}
        for term in stage.terms:
            values = np.array([record["terms"][term] for record in stage.train])
            terms[term] = _thinned(values)
        _plot_parts(ax, steps, terms)
    ax.plot(steps, total, color=BLUE, linewidth=width, label=label)
    ax.set_ylabel("training loss")


def _column(records: Sequence[MetricsRecord], key: str) -> NDArray[np.float64]:
    """The values of a key in all records, [N]."""
    return np.array([record[key] for record in records], float)


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The means of at most `MAX_POINTS` equal blocks."""
    blocks = np.array_split(values, min(len(values), MAX_POINTS))
    return np.array([block.mean() for block in blocks])
