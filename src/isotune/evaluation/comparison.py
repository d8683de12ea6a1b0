"""Scores encoders on tasks, and says whether one scores higher than another, or only seems to.

Encoders that are compared are scored on the same resampled rows.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import get_args

import numpy as np

from isotune.errors import InputError
from isotune.evaluation.intervals import interval
from isotune.evaluation.results import (
    Aggregation,
    AverageAccuracy,
    Comparison,
    Correlations,
    Difference,
    Evaluation,
    Metric,
    STSResult,
    TaskResult,
    TransferResult,
    check_way,
)
from isotune.evaluation.tasks import GROUPS, RowTask, Task, TaskSource, load_tasks, resampled
from isotune.evaluation.vectors import Floats, SentenceEncoder


def evaluate(
    encoder: SentenceEncoder | str | Path,
    tasks: TaskSource | Sequence[TaskSource] | None = None,
    *,
    name: str | None = None,
) -> Evaluation:
    """Scores an encoder on tasks.

    Args:
        encoder: anything with a method `encode`; or a folder or hub name to load.
        tasks: names, files or `TaskRows`, as `isotune.evaluation.load_tasks` takes them. If None, the seven STS tasks
            (the group "sts") if this machine has their data, and "stsb-open" otherwise.
        name: the encoder's name in the result. If None, it is the folder or hub name, or else the encoder's class.

    Returns:
        The result of each task, and the averages of complete groups. Correlations are in [-1, 1] and accuracies in
        [0, 1]; tables print both x 100. `scores()` has them by name.

    Raises:
        InputError: the encoder cannot be loaded, a task cannot be read, or the encoder's space has collapsed.
    """
    name = name or (str(encoder) if isinstance(encoder, str | Path) else type(encoder).__name__)
    loaded_tasks, loaded = load_tasks(tasks), _loaded(encoder)
    return evaluation_of([task.score(loaded)[0] for task in loaded_tasks], name)


def _loaded(encoder: SentenceEncoder | str | Path) -> SentenceEncoder:
    from isotune.encoder.encoder import Encoder

    if isinstance(encoder, str | Path):
        return Encoder.load(encoder)
    if not hasattr(encoder, "encode"):
        raise InputError(
            f"{type(encoder).__name__}: an encoder, or its folder or hub name, is needed"
        )
    return encoder


def compare(
    encoders: Mapping[str, SentenceEncoder | str | Path] | Sequence[str | Path],
    tasks: TaskSource | Sequence[TaskSource] | None = None,
    *,
    aggregation: Aggregation = "all",
    metric: Metric = "spearman",
) -> Comparison:
    """Scores encoders on the same tasks, and says which differences are more than chance.

    Args:
        encoders: folders or hub names; or encoders by name, each of them as `evaluate` takes it.
        tasks: as `evaluate` takes them.
        aggregation: how a correlation puts a task's subsets together; see `Evaluation.scores`.
        metric: which correlation.

    Returns:
        The evaluation of each encoder, and the differences between every two of them.

    Raises:
        InputError: an encoder can't be loaded, a task can't be read, or an encoder's space has collapsed.
    """
    if isinstance(encoders, str | Path) or not isinstance(encoders, Iterable):
        raise InputError(f"encoders {encoders!r:.100}: a list of at least two encoders is needed")
    named = encoders if isinstance(encoders, Mapping) else {each: each for each in encoders}
    if not all(isinstance(name, str | Path) for name in named):
        raise InputError(
            "encoders without a name; give each one: compare({'before': encoder, 'after': other})"
        )
    check_way(aggregation, metric)
    loaded_tasks = load_tasks(tasks)
    return compare_measured(
        measure(loaded_tasks, _loaded(each), str(name), aggregation, metric)
        for name, each in named.items()
    )


@dataclass(frozen=True, eq=False)
class Measured:
    """An encoder's scores, and what they are on resampled rows."""

    evaluation: Evaluation
    scores: Mapping[str, float]  # by the names of `Evaluation.scores`
    samples: Mapping[
        str, Floats
    ]  # [resamples] of each task with rows, and of each group of such tasks
    values: Mapping[str, Floats]  # of each task, those of its rows that its `score` gives


def measure(
    tasks: Sequence[Task],
    encoder: SentenceEncoder,
    name: str,
    aggregation: Aggregation = "all",
    metric: Metric = "spearman",
) -> Measured:
    """Scores an encoder on tasks that `load_tasks` has read. Geometry and the tasks of plugins are not resampled."""
    results: list[TaskResult] = []
    samples: dict[str, Floats] = {}
    values: dict[str, Floats] = {}
    for place, task in enumerate(tasks):
        result, values[task.name] = task.score(encoder)
        results.append(result)
        if isinstance(task, RowTask):
            samples |= resampled(task, values[task.name], aggregation, metric, seed=place)
    for group, members in GROUPS.items():
        if samples.keys() >= set(members):
            samples[group] = np.mean([samples[member] for member in members], axis=0)
    evaluation = evaluation_of(results, name)
    return Measured(evaluation, evaluation.scores(aggregation, metric), samples, values)


def compare_measured(encoders: Iterable[Measured]) -> Comparison:
    """The differences between encoders that were measured on the same tasks, by the same aggregation and metric."""
    measured = list(encoders)
    return Comparison(
        evaluations=tuple(each.evaluation for each in measured),
        differences=tuple(
            difference
            for first, second in combinations(measured, 2)
            for difference in differences(first, second)
        ),
    )


def differences(first: Measured, second: Measured) -> list[Difference]:
    """How much higher the second encoder scores than the first, for each task and group that was resampled."""
    intervals = {
        name: interval(samples - first.samples[name]) for name, samples in second.samples.items()
    }
    return [
        Difference(
            encoder=second.evaluation.encoder,
            against=first.evaluation.encoder,
            score=name,
            difference=second.scores[name] - first.scores[name],
            low=low,
            high=high,
        )
        for name, (low, high) in intervals.items()
    ]


def evaluation_of(results: Sequence[TaskResult], name: str) -> Evaluation:
    """The evaluation that the results of an encoder are, with the averages of complete groups."""
    by_name = {result.name: result for result in results}
    return Evaluation(
        encoder=name,
        tasks=tuple(results),
        averages={
            group: _average([by_name[task] for task in members])
            for group, members in GROUPS.items()
            if by_name.keys() >= set(members)
        },
        versions={package: version(package) for package in ("isotune", "torch", "transformers")}
        | {"python": platform.python_version()},
        created=datetime.now(UTC).replace(microsecond=0),
    )


def _average(results: Sequence[TaskResult]) -> Correlations | AverageAccuracy:
    accuracies = [result.accuracy for result in results if isinstance(result, TransferResult)]
    if accuracies:
        return AverageAccuracy(accuracy=fmean(accuracies))
    sts = [result for result in results if isinstance(result, STSResult)]
    return Correlations.model_validate(
        {
            metric: {
                way: fmean(result.correlation(way, metric) for result in sts)
                for way in get_args(Aggregation)
            }
            for metric in get_args(Metric)
        }
    )
