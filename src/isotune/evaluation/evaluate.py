"""The evaluation of an encoder on tasks."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import get_args

from isotune.evaluation.results import (
    Aggregation,
    AverageAccuracy,
    Correlations,
    Evaluation,
    Metric,
    STSResult,
    TaskResult,
    TransferResult,
)
from isotune.evaluation.tasks import GROUPS, Task, load_tasks
from isotune.evaluation.vectors import SentenceEncoder


def evaluate(
    encoder: SentenceEncoder | str | Path,
    tasks: str | Path | Sequence[str | Path] | None = None,
    *,
    name: str | None = None,
) -> Evaluation:
    """Scores an encoder on tasks.

    Args:
        encoder: anything with a method `encode`; or a folder or hub name to load.
        tasks: names or files, as `isotune.evaluation.load_tasks` takes them. If None, the seven STS tasks (the group
            "sts") if this machine has their data, and "stsb-open" otherwise.
        name: the encoder's name in the result. If None, it is the folder or hub name, or else the encoder's class.

    Returns:
        The result of each task, and the averages of complete groups. Correlations are in [-1, 1] and accuracies in
        [0, 1]; tables print both x 100. `scores()` has them by name.

    Raises:
        InputError: the encoder cannot be loaded, a task cannot be read, or the encoder's space has collapsed.
    """
    if isinstance(encoder, str | Path):
        from isotune.encoder.encoder import Encoder

        name, encoder = name or str(encoder), Encoder.load(encoder)
    return evaluate_on(load_tasks(tasks), encoder, name or type(encoder).__name__)


def evaluate_on(tasks: Sequence[Task], encoder: SentenceEncoder, name: str) -> Evaluation:
    """Scores an encoder on tasks that `load_tasks` has read; raises errors as `Task.score`."""
    return evaluation_of([task.score(encoder) for task in tasks], name)


def evaluation_of(results: Sequence[TaskResult], name: str) -> Evaluation:
    """The evaluation that these results are, with the averages of complete groups."""
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
    """Returns the mean of the results of a group, all of which are of one kind."""
    accuracies = [result.accuracy for result in results if isinstance(result, TransferResult)]
    if accuracies:
        return AverageAccuracy(accuracy=fmean(accuracies))
    sts = [result for result in results if isinstance(result, STSResult)]
    return Correlations.model_validate(
        {
            metric: {way: fmean(result.correlation(way, metric) for result in sts) for way in get_args(Aggregation)}
            for metric in get_args(Metric)
        }
    )
