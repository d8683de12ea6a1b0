"""Encoders side by side: a table for each kind of task and each group that has an average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from isotune.evaluation.results import (
    Aggregation,
    Evaluation,
    GeometryResult,
    Metric,
    STSResult,
    TaskResult,
    TransferResult,
)
from isotune.evaluation.tasks import GROUPS, task_title

if TYPE_CHECKING:
    from rich.table import Table

AVERAGE = "Average"
LONGEST = 110  # columns of a terminal that a title may ask for

AGGREGATIONS: Mapping[str, str] = MappingProxyType(
    {
        "all": "one correlation over all subsets together",
        "mean": "mean over subsets",
        "wmean": "mean over subsets weighted by their size",
    }
)


def comparison_tables(
    evaluations: Sequence[Evaluation], aggregation: Aggregation = "all", metric: Metric = "spearman"
) -> list[Table]:
    """Encoders as rows, tasks and their average as columns; the best correlation or accuracy of each column bold.

    Raises:
        InputError: there is no such aggregation or metric.
    """
    rows = [(evaluation.encoder, evaluation.scores(aggregation, metric)) for evaluation in evaluations]
    headers: dict[_Heading, dict[str, str]] = {}  # {key of the scores: what stands over its column}
    for task in (task for evaluation in evaluations for task in evaluation.tasks):
        heading = _Heading(_title(task, aggregation, metric), _group(task), not isinstance(task, GeometryResult))
        columns = headers.setdefault(heading, {})
        columns |= {key: _header(key, task) for key in task.scores(aggregation, metric)}
    for heading, columns in headers.items():
        if any(heading.group in scores for _, scores in rows):
            columns[heading.group] = AVERAGE  # the last
    return [_table(heading, columns, rows) for heading, columns in headers.items()]


class _Heading(NamedTuple):
    """What a table is of.

    Attributes:
        title: over the table.
        group: its tasks' group; empty where they are of none.
        percent: whether the values are x 100, and better the higher they are.
    """

    title: str
    group: str
    percent: bool


def _group(task: TaskResult) -> str:
    """The group whose table a result stands in; correlations of none stand beside the seven."""
    default = "sts" if isinstance(task, STSResult) else ""
    return next((group for group, names in GROUPS.items() if task.name in names), default)


def _title(task: TaskResult, aggregation: Aggregation, metric: Metric) -> str:
    match task:
        case STSResult():
            return f'{metric.title()} x 100, aggregation "{aggregation}": {AGGREGATIONS[aggregation]}'
        case TransferResult():
            return f"Accuracy x 100, {task.classifier}"
        case GeometryResult():
            return (
                f"Geometry of {task.data}: {task.sentences:,} sentences, {task.normalisation}; "
                f"{task.positives:,} positives, {task.positive}"
            )


def _header(key: str, task: TaskResult) -> str:
    """What stands over the column of one of a task's scores."""
    if isinstance(task, GeometryResult):
        return key.removeprefix(f"{task.name}-").replace("_", " ")
    return task_title(task.name) + (" F1" if key != task.name else "")


def _table(heading: _Heading, columns: Mapping[str, str], rows: Sequence[tuple[str, Mapping[str, float]]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=heading.title, min_width=min(len(heading.title), LONGEST))  # on one line, if not too long
    table.add_column("Encoder", overflow="fold")
    shown = []
    for _, scores in rows:
        values = {key: scores[key] for key in columns if key in scores}
        shown.append({key: f"{100 * v:.2f}" if heading.percent else f"{v:.3f}" for key, v in values.items()})
    best = {key: max((row[key] for row in shown if key in row), key=float) for key in columns if heading.percent}
    for column in columns.values():
        table.add_column(Text(column), justify="right")
    for (encoder, _), row in zip(rows, shown, strict=True):
        cells = [(row.get(key, "-"), row.get(key, "") == best.get(key)) for key in columns]
        table.add_row(Text(encoder), *(Text(value, "bold" if top else "") for value, top in cells))
    return table
