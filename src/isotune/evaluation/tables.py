"""Tables that compare encoders: one for each kind of task and each group of tasks that has an average."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from isotune.errors import counted
from isotune.evaluation import results
from isotune.evaluation.tasks import GROUPS, task_title

MAX_TITLE_WIDTH = 110  # characters; a longer title is broken into lines

AGGREGATIONS: Mapping[str, str] = {
    "all": "one correlation over all subsets together",
    "mean": "mean over subsets",
    "wmean": "mean over subsets weighted by their size",
}
RANKING_TITLES: Mapping[str, str] = {"ndcg@10": "nDCG@10", "mrr@10": "MRR@10"}


def comparison_tables(
    evaluations: Sequence[results.Evaluation],
    aggregation: results.Aggregation = "all",
    metric: results.Metric = "spearman",
    names: Mapping[str, str] = {},
) -> list[Table]:
    """Shows encoders as rows, tasks and their average as columns; the best correlation or accuracy is bold.

    `names` are those of encoders in the table, where these are not their names.
    """
    rows = [
        (names.get(each.encoder, each.encoder), each.scores(aggregation, metric))
        for each in evaluations
    ]
    # For each table, by its title, its tasks' group and whether it prints values x 100 of which higher ones are better:
    columns: dict[
        tuple[str, str, bool], dict[str, str]
    ] = {}  # {key of the scores: the column's header}
    for task in (task for evaluation in evaluations for task in evaluation.tasks):
        own = "sts" if isinstance(task, results.STSResult) else ""
        group = next((group for group, names in GROUPS.items() if task.name in names), own)
        table = (
            _title(task, aggregation, metric),
            group,
            not isinstance(task, results.GeometryResult),
        )
        headers = columns.setdefault(table, {})
        headers |= {key: _header(key, task) for key in task.scores(aggregation, metric)}
    for (_, group, _), headers in columns.items():
        if any(group in scores for _, scores in rows):
            headers[group] = "Average"  # the last column
    return [
        _table(title, percent, headers, rows) for (title, _, percent), headers in columns.items()
    ]


def difference_table(comparison: results.Comparison, names: Mapping[str, str] = {}) -> Table:
    """Shows how much higher every further encoder scores than the first, and all ranks, for each task and group."""
    first = comparison.evaluations[0].encoder
    title = f"Difference from {names.get(first, first)} x 100, and its 95 % interval over the rows of the task"
    table = Table(title=title, min_width=min(len(title), MAX_TITLE_WIDTH))
    for header in ("Encoder", "Task"):
        table.add_column(header, overflow="fold")
    for header in ("Difference", "Interval", "Rank"):
        table.add_column(header, justify="right")
    ranks = {each.score: comparison.ranks(each.score) for each in comparison.differences}
    rows = [(first, score, "", "") for score in ranks]
    for each in comparison.differences:
        if each.against == first:
            rows.append((each.encoder, each.score, f"{100 * each.difference:+.2f}", each.words))
    for encoder, score, *cells in rows:
        table.add_row(
            *map(
                Text,
                (
                    names.get(encoder, encoder),
                    task_title(score),
                    *cells,
                    f"{ranks[score][encoder]}",
                ),
            )
        )
    return table


def _title(
    task: results.TaskResult, aggregation: results.Aggregation, metric: results.Metric
) -> str:
    match task:
        case results.STSResult():
            return (
                f'{metric.title()} x 100, aggregation "{aggregation}": {AGGREGATIONS[aggregation]}'
            )
        case results.TransferResult():
            return f"Accuracy x 100, {task.classifier}"
        case results.GeometryResult():
            return (
                f"Geometry of {task.data}: {task.sentences:,} sentences, {task.normalisation}; "
                f"{counted(task.positives, 'positive')}, {task.positive}"
            )
        case results.RetrievalResult():
            return f"{task.name} x 100: {counted(task.queries, 'query')}, {counted(task.documents, 'document')}"
        case results.NamedScores():
            return f"{task_title(task.name)}, score x 100"


def _header(key: str, task: results.TaskResult) -> str:
    if isinstance(task, results.RetrievalResult):
        measure = key.removeprefix(task.name).removeprefix("-") or results.RANKING_MEASURES[0]
        return RANKING_TITLES.get(measure, measure.capitalize())
    if isinstance(task, results.GeometryResult | results.NamedScores):
        return key.removeprefix(f"{task.name}-").replace("_", " ")
    return task_title(task.name) + key.removeprefix(task.name).replace("-", " ").replace("f1", "F1")


def _table(
    title: str,
    percent: bool,
    headers: Mapping[str, str],
    rows: Sequence[tuple[str, Mapping[str, float]]],
) -> Table:
    table = Table(title=title, min_width=min(len(title), MAX_TITLE_WIDTH))
    table.add_column("Encoder", overflow="fold")
    for header in headers.values():
        table.add_column(Text(header), justify="right")
    printed = []
    for _, scores in rows:
        values = {key: scores[key] for key in headers if key in scores}
        printed.append(
            {key: f"{100 * v:.2f}" if percent else f"{v:.3f}" for key, v in values.items()}
        )
    best = {
        key: max((row[key] for row in printed if key in row), key=float)
        for key in headers
        if percent
    }
    for (encoder, _), row in zip(rows, printed, strict=True):
        cells = [(row.get(key, "-"), row.get(key, "") == best.get(key)) for key in headers]
        table.add_row(
            Text(encoder), *(Text(value, "bold" if is_best else "") for value, is_best in cells)
        )
    return table
