"""The table of tasks, an encoder's evaluation on them, and encoders side by side."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, get_args

from isotune.data import ScoredPairs, available, read_scored_pairs, scored_pairs
from isotune.errors import unknown
from isotune.evaluation.results import Aggregates, Aggregation, Average, Evaluation, Metric, STSResult
from isotune.evaluation.sts import SentenceEncoder, cosine_similarities, score

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Task:
    """A test split to score.

    Attributes:
        title: Its name in tables.
        subsets: Whether its mean and wmean are over subsets. SentEval scores a year's subsets apart, but
            STS-B and SICK-R whole, so that there all three aggregations are one number.
    """

    title: str
    subsets: bool


TASKS = {
    "sts12": Task("STS12", subsets=True),
    "sts13": Task("STS13", subsets=True),
    "sts14": Task("STS14", subsets=True),
    "sts15": Task("STS15", subsets=True),
    "sts16": Task("STS16", subsets=True),
    "stsb": Task("STS-B", subsets=False),
    "sickr": Task("SICK-R", subsets=False),
    "stsb-open": Task("STS-B open", subsets=False),
}
"""The tasks by name; a task's pairs are the test split of the dataset of the same name."""

GROUPS = {"sts": ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")}
"""Named sets of tasks that have an average: the seven of ConSERT, Table 2."""

AVERAGE = "Average"

AGGREGATIONS = {
    "all": "one correlation over all subsets together",
    "mean": "mean over subsets",
    "wmean": "mean over subsets weighted by their size",
}


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
        from isotune.encoder.words import load_encoder

        name, encoder = name or str(encoder), load_encoder(encoder)
    return evaluate_on(load_tasks(tasks), encoder, name or type(encoder).__name__)


def evaluate_on(tasks: Sequence[ScoredPairs], encoder: SentenceEncoder, name: str) -> Evaluation:
    """Score an encoder on pairs that `load_tasks` gave.

    Raises:
        InputError: the encoder's space has collapsed.
    """
    results = [score(pairs, cosine_similarities(encoder, pairs)) for pairs in tasks]
    return Evaluation(
        encoder=name,
        tasks=tuple(results),
        average=_average(results),
        versions={package: version(package) for package in ("isotune", "torch", "transformers")}
        | {"python": platform.python_version()},
        created=datetime.now(UTC).replace(microsecond=0),
    )


def load_tasks(tasks: Sequence[str] | None = None) -> list[ScoredPairs]:
    """The pairs of tasks: names of `TASKS`, of `GROUPS`, or files of scored pairs; each task once.

    Without `tasks` these are the seven of the group "sts" if this machine has them all, else "stsb-open".

    Raises:
        InputError: a task is neither known nor a file, or its pairs can't be read.
    """
    default = ("sts",) if all(available(task) for task in GROUPS["sts"]) else ("stsb-open",)
    names = dict.fromkeys(member for task in tasks or default for member in GROUPS.get(task, (task,)))
    return [_load(name) for name in names]


def task_title(task: str) -> str:
    """A task's name in tables; a file's is its path."""
    return TASKS[task].title if task in TASKS else task


def comparison_table(
    evaluations: Sequence[Evaluation], aggregation: Aggregation = "all", metric: Metric = "spearman"
) -> Table:
    """Encoders as rows, tasks and their average as columns, values x 100, the best of each column bold."""
    from rich.table import Table
    from rich.text import Text

    if aggregation not in AGGREGATIONS:
        raise unknown("aggregation", aggregation, AGGREGATIONS)
    if metric not in get_args(Metric):
        raise unknown("metric", metric, get_args(Metric))
    rows = []
    for evaluation in evaluations:
        row: dict[str, STSResult | Average] = {task_title(task.name): task for task in evaluation.tasks}
        if evaluation.average:
            row[AVERAGE] = evaluation.average
        rows.append({name: f"{100 * getattr(getattr(r, metric), aggregation):.2f}" for name, r in row.items()})
    columns = sorted(dict.fromkeys(chain.from_iterable(rows)), key=AVERAGE.__eq__)  # the average last
    best = {name: max((row[name] for row in rows if name in row), key=float) for name in columns}
    title = f'{metric.title()} x 100, aggregation "{aggregation}": {AGGREGATIONS[aggregation]}'
    table = Table(title=title, min_width=len(title))  # on one line
    table.add_column("Encoder", overflow="fold")
    for name in columns:
        table.add_column(Text(name), justify="right")
    for evaluation, values in zip(evaluations, rows, strict=True):
        cells = [(values.get(name, "-"), values.get(name) == best[name]) for name in columns]
        table.add_row(Text(evaluation.encoder), *(Text(value, "bold" if top else "") for value, top in cells))
    return table


def _load(task: str) -> ScoredPairs:
    if task in TASKS:
        pairs = scored_pairs(task)
        return pairs if TASKS[task].subsets else replace(pairs, subsets=[task] * len(pairs.subsets))
    if Path(task).is_file():
        return read_scored_pairs(Path(task))
    raise unknown("task or file", task, [*TASKS, *GROUPS])


def _average(results: Sequence[STSResult]) -> Average | None:
    by_name = {result.name: result for result in results}
    if not by_name.keys() >= set(GROUPS["sts"]):
        return None
    seven = [by_name[name] for name in GROUPS["sts"]]
    return Average(
        group="sts",
        spearman=_mean([result.spearman for result in seven]),
        pearson=_mean([result.pearson for result in seven]),
    )


def _mean(parts: Sequence[Aggregates]) -> Aggregates:
    return Aggregates(
        all=fmean(part.all for part in parts),
        mean=fmean(part.mean for part in parts),
        wmean=fmean(part.wmean for part in parts),
    )
