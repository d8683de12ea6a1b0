"""An encoder's evaluation on tasks."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean

from isotune.evaluation.results import (
    Aggregates,
    Average,
    AverageAccuracy,
    Evaluation,
    STSResult,
    TaskResult,
    TransferResult,
)
from isotune.evaluation.tasks import GROUPS, Task, load_tasks
from isotune.evaluation.vectors import SentenceEncoder


def evaluate(
    encoder: SentenceEncoder | str | Path, tasks: Sequence[str] | None = None, *, name: str | None = None
) -> Evaluation:
    """Score an encoder on tasks.

    Args:
        encoder: anything that encodes; or a folder, hub name or file of word vectors, which is loaded.
        tasks: as `load_tasks` takes them.
        name: what the result calls it; the folder or hub name, or else its class, if None.

    Raises:
        InputError: the encoder can't be loaded, a task can't be read, or the encoder's space has collapsed.
    """
    if isinstance(encoder, str | Path):
        from isotune.encoder.load import load_encoder

        name, encoder = name or str(encoder), load_encoder(encoder)
    return evaluate_on(load_tasks(tasks), encoder, name or type(encoder).__name__)


def evaluate_on(tasks: Sequence[Task], encoder: SentenceEncoder, name: str) -> Evaluation:
    """Score an encoder on tasks that `load_tasks` gave.

    Raises:
        InputError: the encoder's vectors are not finite, or its space has collapsed.
    """
    results = {task.name: task.score(encoder) for task in tasks}
    whole = {group: names for group, names in GROUPS.items() if results.keys() >= set(names)}
    return Evaluation(
        encoder=name,
        tasks=tuple(results.values()),
        averages={group: _average([results[name] for name in names]) for group, names in whole.items()},
        versions={package: version(package) for package in ("isotune", "torch", "transformers")}
        | {"python": platform.python_version()},
        created=datetime.now(UTC).replace(microsecond=0),
    )


def _average(results: Sequence[TaskResult]) -> Average | AverageAccuracy:
    """The mean of a group's results, which are of one kind."""
    accuracies = [result.accuracy for result in results if isinstance(result, TransferResult)]
    if accuracies:
        return AverageAccuracy(accuracy=fmean(accuracies))
    correlations = [result for result in results if isinstance(result, STSResult)]
    return Average(
        spearman=_mean([result.spearman for result in correlations]),
        pearson=_mean([result.pearson for result in correlations]),
    )


def _mean(parts: Sequence[Aggregates]) -> Aggregates:
    return Aggregates(
        all=fmean(part.all for part in parts),
        mean=fmean(part.mean for part in parts),
        wmean=fmean(part.wmean for part in parts),
    )
