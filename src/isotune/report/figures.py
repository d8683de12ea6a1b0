"""The figures of a run's report, each an SVG element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isotune.evaluation.sts import Floats, correlations
from isotune.report.chart import Chart, Panel, Series
from isotune.report.drawing import svg
from isotune.report.stages import MetricsRecord, StageRecords, metric_title
from isotune.report.style import BLUE, GREEN, INK, PURPLE, VERMILION

PART_COLOURS, PART_DASHES = (GREEN, PURPLE, VERMILION), ("-", "--", ":")  # the whole is blue
MAX_POINTS = 1000  # in a line; a longer one is averaged in equal blocks, which a 4.4 inch figure does not show


def learning_curves(stages: Sequence[StageRecords]) -> list[str]:
    """Draws a figure for each stage: the dev scores over the steps, and below them the training loss.

    A dashed line shows the score at the start, a ring the step that was kept. Scores by one metric have the same axis
    in all figures.
    """
    figures = []
    for stage in stages:
        drawn = [_dev_scores(stage, stages)] if stage.dev else []
        drawn += [_losses(stage)] if stage.train else []
        if drawn:
            figures.append(_stage_figure("learning-curve", stage, stages, drawn))
    return figures


def space_monitor(stages: Sequence[StageRecords]) -> list[str]:
    """Draws a figure for each stage: the mean cosine of different sentences and the effective rank over the steps."""
    figures = []
    for stage in (stage for stage in stages if stage.space):
        steps, drawn = _column(stage.space, "step"), []
        for key, title, colour in (
            ("mean_cosine", "Mean cosine of different sentences", VERMILION),
            ("effective_rank", "Effective rank", GREEN),
        ):
            values = _column(stage.space, key)
            limits = _limits([record[key] for other in stages for record in other.space])
            marks = [_line(steps, values, colour=colour, marker="o")]
            text = f"{title}: {values[0]:.3g} at step {steps[0]:.0f}, {values[-1]:.3g} at the end."
            drawn.append((_panel(marks, key.replace("_", " "), limits if len(stages) > 1 else None), text))
        figures.append(_stage_figure("space", stage, stages, drawn))
    return figures


def cosine_against_gold(gold: Floats, panels: Mapping[str, Floats]) -> list[str]:
    """Draws a figure for each encoder, all on the same axes: a point for each pair (ConSERT, Figure 1).

    `gold` and each of `panels` are [N].
    """
    low = min(0.0, *(float(cosines.min()) for cosines in panels.values()))
    figures = []
    for name, cosines in panels.items():
        panel = replace(cosine_panel(name.capitalize(), gold, cosines), y_limits=(low - 0.03, 1.03))
        quarter, three_quarters = np.quantile(cosines, (0.25, 0.75))
        description = (
            f"{panel.title}, cosine against gold score of {len(gold)} pairs; "
            f"half of the cosines lie between {quarter:.2f} and {three_quarters:.2f}."
        )
        figures.append(svg(Chart([panel], (4.0, 3.4)), f"cosines-{name}", description))
    return figures


def cosine_panel(name: str, gold: Floats, cosines: Floats, hover: Sequence[str] = ()) -> Panel:
    """Plots gold scores [N] against cosines [N], with Spearman's correlation in the title."""
    both = correlations(gold, cosines)
    spearman = "Spearman undefined" if both is None else f"Spearman {100 * both[0]:.2f}"
    opacity = float(np.clip(500 / len(gold), 0.1, 0.6))
    points = Series(gold.tolist(), cosines.tolist(), marker="o", size=3.7, opacity=opacity, hover=hover)
    return Panel([points], f"{name}: {spearman}", "gold score", "cosine")


def _stage_figure(
    name: str, stage: StageRecords, stages: Sequence[StageRecords], drawn: Sequence[tuple[Panel, str]]
) -> str:
    """Draws panels with their descriptions one below the other; the stage is named if the run has several."""
    title = stage.title if len(stages) > 1 else ""
    panels, descriptions = zip(*drawn, strict=True)
    size = 4.4, 2.1 if len(panels) > 1 else 2.4
    chart = Chart([replace(panels[0], title=title), *panels[1:]], size, columns=1, same_y=False)
    return svg(chart, f"{name}-{stage.number}", " ".join([f"{title}."] * bool(title) + list(descriptions)))


def _panel(marks: Sequence[Series], y_label: str, y_limits: tuple[float, float] | None = None) -> Panel:
    return Panel(marks, x_label="step", y_label=y_label, whole_x=True, y_limits=y_limits, legend=True)


def _line(steps: Floats, values: Floats, name: str = "", colour: str = BLUE, marker: str = "") -> Series:
    return Series(steps.tolist(), values.tolist(), name, colour, "-", marker, width=1.8, size=4)


def _parts(steps: Floats, parts: Mapping[str, Floats]) -> list[Series]:
    """Returns thin lines for what a score or loss is made of; no two of the first nine look the same."""
    return [
        replace(_line(steps, values, name, PART_COLOURS[i % 3]), dash=PART_DASHES[i // 3 % 3], width=1.2)
        for i, (name, values) in enumerate(parts.items())
    ]


def _dev_scores(stage: StageRecords, stages: Sequence[StageRecords]) -> tuple[Panel, str]:
    steps, scores = _column(stage.dev, "step"), 100 * _column(stage.dev, "score")
    step, kept = stage.kept["step"], 100 * stage.kept["score"]
    at = "its start" if step == steps[0] and stage.number > 1 else f"step {step}"
    marks = [
        *_parts(steps, {metric_title(part): 100 * _column(stage.dev, part) for part in stage.parts}),
        _line(steps, scores, stage.metric if stage.parts else "", marker="o"),
        Series([steps[0], steps[-1]], [scores[0]] * 2, f"start: {scores[0]:.2f}", INK, "--", width=1),
        Series([step], [kept], f"kept: {kept:.2f} at {at}", VERMILION, marker="o", hollow=True, size=11),
    ]
    same = [other for other in stages if other.dev and other.metric == stage.metric]
    values = [100 * record[key] for other in same for record in other.dev for key in ("score", *other.parts)]
    description = (
        f"Dev {stage.metric} x 100 over {len(steps)} evaluations, from {scores[0]:.2f} to {scores[-1]:.2f}. "
        f"The encoder kept is that of {at}, at {kept:.2f}."
    )
    return _panel(marks, f"dev {stage.metric} x 100", _limits(values) if len(same) > 1 else None), description


def _losses(stage: StageRecords) -> tuple[Panel, str]:
    steps, total = _thinned(_column(stage.train, "step")), _thinned(_column(stage.train, "loss"))
    several = len(stage.terms) > 1
    terms = {term: np.array([record["terms"][term] for record in stage.train]) for term in stage.terms if several}
    parts = _parts(steps, {term: _thinned(values) for term, values in terms.items()})
    whole = replace(_line(steps, total, "sum" if several else ""), width=1.8 if several else 1.2)
    description = f"Training loss from {total[0]:.3g} to {total[-1]:.3g}, up to step {steps[-1]:.0f}."
    return _panel([*parts, whole], "training loss"), description


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
