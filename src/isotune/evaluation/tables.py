"""Tables that compare encoders.

There is a table for each kind of task, and for each group of tasks that has an average.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rich.table import Table
from rich.text import Text

from isotune.errors import counted
from isotune.evaluation import results
from isotune.evaluation.formats import Cell, ScoreTable
from isotune.evaluation.tasks import GROUPS, task_title

MAX_TITLE_WIDTH = 110
"""A title of more characters is broken into lines."""

AGGREGATIONS: Mapping[str, str] = {
    "all": "one correlation over all subsets together",
    "mean": "mean over subsets",
    "wmean": "mean over subsets weighted by their size",
}


def comparison_tables(
    evaluations: Sequence[results.Evaluation],
    aggregation: results.Aggregation = "all",
    metric: results.Metric = "spearman",
    names: Mapping[str, str] = {},
) -> list[Table]:
    """Shows encoders, and below them the controls, as rows, tasks and their average as columns.

    The best correlation or accuracy is bold.

    `names` are those of encoders in the table, where these are not their names.
    """
    rows: list[Row] = []
    contents: dict[tuple[str, str], TableContent] = {}
    for evaluation in evaluations:
        name = names.get(evaluation.encoder, evaluation.encoder)
        rows.append((name, evaluation.scores(aggregation, metric)))
        for task in evaluation.tasks:
            title = _title(task, aggregation, metric)
            group = _group(task)
            content = contents.setdefault((title, group), TableContent(title, group))
            content.add(task)
    controls = results.control_scores(evaluations, aggregation, metric)
    return [content.table(rows, controls) for content in contents.values()]


Row: TypeAlias = tuple[str, Mapping[str, float]]
"""The name of an encoder, and its scores."""


@dataclass(frozen=True)
class TableContent:
    """What a table shows: the tasks of one kind that have an average together."""

    title: str

    group: str
    """The group whose average is the last column; empty if there is none."""

    headers: dict[str, str] = field(default_factory=dict)
    """The header of each column, by the score that it shows."""

    unscaled: set[str] = field(default_factory=set)
    """The scores that are measures of a space: they are not multiplied by 100, and none is best."""

    def add(self, task: results.TaskResult) -> None:
        """Adds the scores of a task."""
        for score in task.scores():
            self.headers[score] = _header(score, task)
            if isinstance(task, results.GeometryResult):
                self.unscaled.add(score)

    def table(self, rows: Sequence[Row], controls: Mapping[str, Mapping[str, float]]) -> Table:
        """The table, with the encoders in its rows, and those controls that know such tasks."""
        known = [(name, table) for name, table in controls.items() if table.keys() & self.headers]
        rows = [*rows, *known]
        headers = dict(self.headers)
        if any(self.group in scores for _, scores in rows):
            headers[self.group] = "Average"
        width = min(len(self.title), MAX_TITLE_WIDTH)
        table = Table(title=self.title, min_width=width)
        table.add_column("Encoder", overflow="fold")
        for header in headers.values():
            table.add_column(Text(header), justify="right")
        columns = [self._cells(score, rows) for score in headers]
        for (encoder, _), *cells in zip(rows, *columns, strict=True):
            table.add_row(Text(encoder), *cells)
        return table

    def _cells(self, score: str, rows: Sequence[Row]) -> list[Text]:
        """The values of a score, one for each encoder.

        The best is bold, and a missing one is a dash.
        """
        template = "{:.3f}"
        scale = 1
        best = ""
        if score not in self.unscaled:
            template = "{:.2f}"
            scale = 100
            values = [scores[score] for _, scores in rows if score in scores]
            best = template.format(scale * max(values, default=0.0))
        cells = []
        for _, scores in rows:
            cell = "-"
            if score in scores:
                cell = template.format(scale * scores[score])
            cells.append(Text(cell, "bold" if cell == best else ""))
        return cells


def score_table(comparison: results.Comparison, names: Mapping[str, str] = {}) -> ScoreTable:
    """All scores of encoders, and below them of the controls, in one table for a paper.

    `names` are those of encoders in the table, where these are not their names.
    """
    aggregation, metric = comparison.aggregation, comparison.metric
    scores = {}
    for evaluation in comparison.evaluations:
        name = names.get(evaluation.encoder, evaluation.encoder)
        scores[name] = evaluation.scores(aggregation, metric)
    scores |= results.control_scores(comparison.evaluations, aggregation, metric)
    beaten = _beaten(comparison, names)
    headings = _headings(comparison.evaluations)
    columns = []
    for score in headings:
        columns.append(_column(score, scores, beaten))
    rows = dict(zip(scores, zip(*columns, strict=True), strict=True))
    note = (
        f"Correlations are {metric.title()}'s, {AGGREGATIONS[aggregation]}. Marks above a score "
        "name the encoders that it beats: the 95 % interval of the difference over the rows of the "
        "task doesn't hold 0."
    )
    compared = {headings[each.score] for each in comparison.differences}
    return ScoreTable("Scores of encoders x 100", note, list(headings.values()), rows, compared)


def _headings(evaluations: Iterable[results.Evaluation]) -> dict[str, str]:
    """The heading of each score; averages stand last."""
    headings = {}
    averages = {}
    for evaluation in evaluations:
        for task in evaluation.tasks:
            for score in task.scores():
                headings[score] = _header(score, task)
                if isinstance(task, results.RetrievalResult):
                    headings[score] = f"{task.name} {headings[score]}"
        for group in evaluation.averages:
            averages[group] = f"{task_title(group)} average"
    return headings | averages


def _beaten(
    comparison: results.Comparison, names: Mapping[str, str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """By the name of an encoder and a score, the names of the encoders that it beats."""
    beaten: dict[tuple[str, str], tuple[str, ...]] = {}
    for each in comparison.differences:
        if each.tied:
            continue
        winner, loser = each.encoder, each.against
        if each.difference < 0:
            winner, loser = loser, winner
        place = (names.get(winner, winner), each.score)
        beaten[place] = (*beaten.get(place, ()), names.get(loser, loser))
    return beaten


def _column(
    score: str,
    scores: Mapping[str, Mapping[str, float]],
    beaten: Mapping[tuple[str, str], tuple[str, ...]],
) -> list[Cell]:
    """The cells of a score, one for each encoder; no measure of a space is best."""
    values = [table[score] for table in scores.values() if score in table]
    best = results.printed(score, max(values))
    cells = []
    for name, table in scores.items():
        if score not in table:
            cells.append(Cell())
            continue
        value = results.printed(score, table[score])
        is_best = value == best and not score.endswith(results.MEASURES)
        cells.append(Cell(value, is_best=is_best, beaten=beaten.get((name, score), ())))
    return cells


def difference_table(comparison: results.Comparison, names: Mapping[str, str] = {}) -> Table:
    """Shows how much higher every further encoder scores than the first.

    Each task and group has rows of its own, with the ranks of these encoders; those of the first
    stand below.
    """
    first = comparison.evaluations[0].encoder
    name = names.get(first, first)
    title = f"Difference from {name} x 100, and its 95 % interval over the rows of the task"
    table = Table(title=title, min_width=min(len(title), MAX_TITLE_WIDTH))
    table.add_column("Encoder", overflow="fold")
    table.add_column("Task", overflow="fold")
    table.add_column("Difference", justify="right")
    table.add_column("Interval", justify="right")
    table.add_column("Rank", justify="right")
    scores = dict.fromkeys(difference.score for difference in comparison.differences)
    ranks = {score: comparison.ranks(score) for score in scores}
    rows = []
    for each in comparison.differences:
        if each.against == first:
            rows.append((each.encoder, each.score, f"{100 * each.difference:+.2f}", each.words))
    for encoder, score, difference, interval in rows:
        name = names.get(encoder, encoder)
        rank = ranks[score][encoder]
        title = results.score_words(task_title(score))
        cells = (name, title, difference, interval, f"{rank}")
        table.add_row(*map(Text, cells))
    places = {results.score_words(task_title(score)): of[first] for score, of in ranks.items()}
    listed = ", ".join(f"{place} on {title}" for title, place in places.items())
    table.caption = Text(f"Rank of {names.get(first, first)}: {listed}")
    return table


def cost_table(comparison: results.Comparison, names: Mapping[str, str] = {}) -> Table:
    """Shows what every encoder costs, with its first score of each task beside."""
    title = "Cost of an encoder on this machine, with one thread, and its scores x 100"
    table = Table(title=title, min_width=min(len(title), MAX_TITLE_WIDTH))
    table.add_column("Encoder", overflow="fold")
    for header in ("Sentences a second", "MB of weights", "Bytes a vector"):
        table.add_column(header, justify="right")
    shown = comparison.main_scores()
    for score in shown:
        table.add_column(Text(task_title(score)), justify="right")
    for encoder, cost in comparison.costs.items():
        cells = [
            names.get(encoder, encoder),
            f"{cost.sentences_per_second:,.0f}",
            f"{cost.weight_bytes / 1e6:,.1f}",
            f"{cost.vector_bytes:,}",
        ]
        for values in shown.values():
            cells.append(f"{100 * values[encoder]:.2f}")
        table.add_row(*map(Text, cells))
    return table


def control_table(
    evaluations: Sequence[results.Evaluation], names: Mapping[str, str] = {}
) -> Table:
    """Shows how much higher every encoder scores than the controls."""
    title = "Difference from the controls x 100, and its 95 % interval over the rows of the task"
    table = Table(title=title, min_width=min(len(title), MAX_TITLE_WIDTH))
    table.add_column("Encoder", overflow="fold")
    table.add_column("Control")
    table.add_column("Task", overflow="fold")
    table.add_column("Difference", justify="right")
    table.add_column("Interval", justify="right")
    for evaluation in evaluations:
        name = names.get(evaluation.encoder, evaluation.encoder)
        for control in evaluation.controls:
            for each in control.main_differences:
                difference = f"{100 * each.difference:+.2f}"
                title = results.score_words(task_title(each.score))
                cells = (name, control.name, title, difference, each.words)
                table.add_row(*map(Text, cells))
    return table


def _group(task: results.TaskResult) -> str:
    """The group of a task, with whose average it stands in one table."""
    for group, members in GROUPS.items():
        if task.name in members:
            return group
    if isinstance(task, results.STSResult):
        return "sts"
    return ""


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
            queries = counted(task.queries, "query")
            return f"{task.name} x 100: {queries}, {counted(task.documents, 'document')}"
        case results.NamedScores():
            return f"{task_title(task.name)}, score x 100"


def _header(score: str, task: results.TaskResult) -> str:
    """The header of the column of a task's score."""
    ending = score.removeprefix(task.name)
    if isinstance(task, results.RetrievalResult):
        measure = ending.removeprefix("-") or results.RANKING_MEASURES[0]
        return results.MEASURE_TITLES[measure]
    if isinstance(task, results.GeometryResult | results.NamedScores):
        return score.removeprefix(f"{task.name}-").replace("_", " ")
    return task_title(task.name) + ending.replace("-", " ").replace("f1", "F1")
