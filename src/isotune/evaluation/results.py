"""The results of an evaluation, as frozen models that JSON round-trips exactly.

Correlations lie in [-1, 1] and accuracies in [0, 1]; only tables print them x 100. Each correlation
over a task is given in the three aggregations that the literature uses: they differ by several
points and are easily confused. `model_dump_json` writes every class here and `model_validate_json`
reads it. Each result's `scores` is a flat table of its numbers, which studies and reports read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from isotune.encoder.calibration import Calibration
from isotune.errors import InputError, as_input_error, invalid, unknown

Aggregation = Literal["all", "mean", "wmean"]
Metric = Literal["spearman", "pearson"]
Correlation = Annotated[float, Field(ge=-1, le=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]

RANKING_MEASURES = ("ndcg@10", "mrr@10", "recall@1", "recall@10", "recall@100")

MEASURES = ("alignment", "uniformity", "mean_cosine", "effective_rank")
"""The measures of a vector space, which are no shares of 1."""

_FOLDERS = re.compile(r"(?<![^:])/[^,]*/")


def check_way(aggregation: str, metric: str) -> None:
    """Checks the names; raises `InputError` if there is no such aggregation or metric."""
    if aggregation not in get_args(Aggregation):
        raise unknown("aggregation", aggregation, get_args(Aggregation))
    if metric not in get_args(Metric):
        raise unknown("metric", metric, get_args(Metric))


def ranking_scores(task: str) -> list[str]:
    """The names of a retrieval task's scores, in the order of `RANKING_MEASURES`."""
    return [task, *(f"{task}-{measure}" for measure in RANKING_MEASURES[1:])]


def geometry_scores(task: str) -> list[str]:
    """The names of a geometry task's scores, in the order of `MEASURES`."""
    if task == "geometry":
        return list(MEASURES)
    return [f"{task}-{measure}" for measure in MEASURES]


MEASURE_TITLES: Mapping[str, str] = {
    "ndcg@10": "nDCG@10",
    "mrr@10": "MRR@10",
    "recall@1": "Recall@1",
    "recall@10": "Recall@10",
    "recall@100": "Recall@100",
    "macro-f1": "macro F1",
    "micro-f1": "micro F1",
    "f1": "F1",
    "spearman": "Spearman",
    "pearson": "Pearson",
    "alignment": "alignment",
    "uniformity": "uniformity",
    "mean_cosine": "mean cosine",
    "effective_rank": "effective rank",
}
"""What the measures behind the names of tasks are called."""

ENDING = re.compile(rf"(?<=.)-({'|'.join(MEASURE_TITLES)})$", re.DOTALL)
"""What a score's name has behind that of its task."""


def without_folders(name: str) -> str:
    """The name of a task or a source, without the folders of the file in it."""
    return _FOLDERS.sub("", name)


def score_words(score: str) -> str:
    """A score's name in words: "faq.csv (MRR@10)" for "faq.csv-mrr@10"."""
    ending = ENDING.search(score)
    if ending is None:
        return score
    return f"{score[: ending.start()]} ({MEASURE_TITLES[ending[1]]})"


def printed(score: str, value: float) -> str:
    """A score's value as text: x 100, but for `MEASURES`."""
    if score.endswith(MEASURES):
        return f"{value:.4f}"
    return f"{100 * value:.2f}"


class Result(BaseModel):
    """What all results share: they never change, and have no other fields than their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a result's file of JSON.

        Raises `InputError` if it can't be read or is no such result.
        """
        try:
            with as_input_error(OSError, f"{path}: it can't be read"):
                return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            problem = invalid(str(path), error)
            raise InputError(
                f"{problem}; the command that wrote this file makes it again"
            ) from error


class Aggregates(Result):
    """A task's correlation, with its subsets put together in three ways."""

    all: Correlation
    """Over all subsets concatenated, the default: SBERT, SimCSE, ConSERT (section 4.1)."""

    mean: Correlation
    """The unweighted mean of the subsets' correlations: SentEval."""

    wmean: Correlation
    """The mean of the subsets' correlations, weighted by the numbers of pairs: SentEval."""


class Correlations(Result):
    """Both correlations of a task, or their means over a group, in every aggregation."""

    spearman: Aggregates
    pearson: Aggregates

    def correlation(self, aggregation: Aggregation, metric: Metric) -> float:
        """One of the correlations."""
        return getattr(getattr(self, metric), aggregation)


class SubsetResult(Result):
    """The correlations of one subset.

    They are None if the subset's gold scores are all equal, so that none is defined.
    """

    pairs: int
    spearman: Correlation | None
    pearson: Correlation | None


class STSResult(Correlations):
    """How well an encoder's cosines agree with the gold scores of one task."""

    kind: Literal["sts"] = "sts"
    name: str
    split: str
    pairs: int
    subsets: dict[str, SubsetResult]

    def scores(
        self, aggregation: Aggregation = "all", metric: Metric = "spearman"
    ) -> dict[str, float]:
        """The correlation that is asked for, under the task's name."""
        return {self.name: self.correlation(aggregation, metric)}


class TransferResult(Result):
    """How well a classifier on an encoder's frozen vectors does."""

    kind: Literal["transfer"] = "transfer"
    name: str

    classifier: str
    """The classifier that was trained on the vectors."""

    protocol: str
    """What the classifier was trained, chosen and tested on."""

    rows: int
    """The number of rows tested on."""

    accuracy: Fraction

    f1: Fraction | None
    """F1 of class 1, for tasks that report it (MRPC); None for the others."""

    macro_f1: Fraction | None = None
    """The mean of the classes' F1, for texts with labels of the user."""

    largest_class: Fraction | None = None
    """The share of the largest class in the rows tested on."""

    copies: int = 0
    """The rows that are copies of others and stand in their fold.

    It is 0 if copies count as other rows do.
    """

    dev_accuracy: Fraction | None
    """The accuracy by which the regularisation was chosen; None if the regularisation is fixed."""

    regularisation: tuple[Finite, ...]
    """The strength of the regularisation, for each classifier that was tested."""

    def scores(self) -> dict[str, float]:
        """The accuracy under the task's name.

        F1 and macro F1, if there are any, stand under NAME-f1 and NAME-macro-f1.
        """
        scores = {self.name: self.accuracy}
        if self.f1 is not None:
            scores[f"{self.name}-f1"] = self.f1
        if self.macro_f1 is not None:
            scores[f"{self.name}-macro-f1"] = self.macro_f1
        return scores


class GeometryResult(Result):
    """How an encoder's vectors lie on the unit sphere."""

    kind: Literal["geometry"] = "geometry"
    name: str

    data: str
    """The pairs whose sentences were encoded, such as "stsb:dev"."""

    sentences: int
    """The number of distinct sentences."""

    positives: int
    """The number of positive pairs, over which alignment was measured."""

    positive: str
    """What makes a pair positive."""

    normalisation: str
    """What was done to the vectors before measuring."""

    alignment: Finite
    uniformity: Finite
    mean_cosine: Finite
    effective_rank: Finite

    def scores(self) -> dict[str, float]:
        """Each measure under TASK-MEASURE; of the task "geometry" under its own name."""
        values = [self.alignment, self.uniformity, self.mean_cosine, self.effective_rank]
        return dict(zip(geometry_scores(self.name), values, strict=True))


class RetrievalResult(Result):
    """How well an encoder finds the documents that answer queries.

    Each measure is the mean over the queries.
    """

    kind: Literal["retrieval"] = "retrieval"
    name: str
    queries: int
    documents: int

    measures: dict[str, Fraction]
    """The values by the names of `RANKING_MEASURES`."""

    def scores(self) -> dict[str, float]:
        """NDCG under the task's name, and each other measure under NAME-MEASURE."""
        return dict(zip(ranking_scores(self.name), self.measures.values(), strict=True))


class NamedScores(Result):
    """The scores of a task that a plugin defines, between -1 and 1; higher is better."""

    kind: Literal["scores"] = "scores"
    name: str

    values: dict[str, Correlation]
    """The scores by the task's name, or by TASK-SCORE if the task has several scores."""

    def scores(self) -> dict[str, float]:
        """The values, in a table of their own."""
        return dict(self.values)


TaskResult: TypeAlias = STSResult | TransferResult | GeometryResult | RetrievalResult | NamedScores


class AverageAccuracy(Result):
    """The mean accuracy over the tasks of a group."""

    accuracy: Fraction


def _table(
    tasks: Sequence[TaskResult],
    averages: Mapping[str, Correlations | AverageAccuracy],
    aggregation: Aggregation,
    metric: Metric,
) -> dict[str, float]:
    """The scores of each result, and last the groups' averages by their names."""
    table: dict[str, float] = {}
    for task in tasks:
        if isinstance(task, STSResult):
            table |= task.scores(aggregation, metric)
        else:
            table |= task.scores()
    for group, average in averages.items():
        if isinstance(average, AverageAccuracy):
            table[group] = average.accuracy
        else:
            table[group] = average.correlation(aggregation, metric)
    return table


class Difference(Result):
    """How much higher an encoder scores than another on the same rows.

    The 95 % interval is that of the paired bootstrap.

    The bootstrap draws the rows of each task again, with replacement and for both encoders alike,
    each subset by itself. Another sample of as many rows gives a difference in this interval 95
    times in a hundred.
    """

    encoder: str

    against: str
    """The other encoder."""

    score: str
    """A task or a group, by its name in `Evaluation.scores`."""

    difference: Finite
    """The first encoder's score minus the other's."""

    low: Finite
    high: Finite

    @property
    def tied(self) -> bool:
        """Whether the interval holds 0: the rows can't tell which encoder is better."""
        return self.low <= 0 <= self.high

    @property
    def words(self) -> str:
        """The interval x 100, and what it says, such as "-0.40 to +0.11, tied"."""
        if self.tied:
            verdict = "tied"
        elif self.difference > 0:
            verdict = "better"
        else:
            verdict = "worse"
        return f"{interval_ends(self.low, self.high)}, {verdict}"


class ControlResult(Result):
    """How a control does on the tasks that it knows, and how much higher the encoder scores.

    A control is a rule that knows only the words of the texts, as `evaluation.controls` has it.
    """

    name: str

    tasks: tuple[TaskResult, ...]

    averages: dict[str, Correlations | AverageAccuracy]
    """The averages by group, for each group all of whose tasks the control knows."""

    differences: tuple[Difference, ...]
    """The differences of the encoder from the control, by task and group."""

    def scores(
        self, aggregation: Aggregation = "all", metric: Metric = "spearman"
    ) -> dict[str, float]:
        """All numbers of the control, as `Evaluation.scores` has those of the encoder."""
        return _table(self.tasks, self.averages, aggregation, metric)

    @property
    def main_differences(self) -> list[Difference]:
        """The differences in the first score of each task, and in each average."""
        main = {*(task.name for task in self.tasks), *self.averages}
        return [each for each in self.differences if each.score in main]

    @property
    def unbeaten(self) -> list[str]:
        """The tasks and groups on which the encoder is not better by more than chance."""
        return [each.score for each in self.main_differences if each.low <= 0]


class Evaluation(Result):
    """The results of one encoder on several tasks, with the versions that made them.

    It prints as a table.
    """

    encoder: str
    """The encoder's name or path."""

    tasks: tuple[TaskResult, ...]

    averages: dict[str, Correlations | AverageAccuracy]
    """The averages by group, for each group all of whose tasks were evaluated."""

    controls: tuple[ControlResult, ...] = ()
    """What the scores are worth beside rules without an encoder.

    It is empty if controls were left out, or if no task has one.
    """

    versions: dict[str, str]
    created: AwareDatetime

    def scores(
        self, aggregation: Aggregation = "all", metric: Metric = "spearman"
    ) -> dict[str, float]:
        """All numbers as one flat table.

        It has the scores of each result, and last the groups' averages by their names.
        """
        check_way(aggregation, metric)
        return _table(self.tasks, self.averages, aggregation, metric)

    def __str__(self) -> str:
        scores = {self.encoder: self.scores()}
        scores |= {control.name: control.scores() for control in self.controls}
        return "\n".join([_scores_side_by_side(scores), *unbeaten_lines(self, self.encoder)])


class Cost(Result):
    """What encoding costs, with one encoder or with several together."""

    weights: int
    """The number of weights."""

    sentences_per_second: float
    """The speed on this machine, from a single measurement."""

    @property
    def words(self) -> str:
        """The size and the speed, such as "22.7 million weights, 310 sentences a second"."""
        return (
            f"{self.weights / 1e6:.1f} million weights, {self.sentences_per_second:,.0f} a second"
        )


class EncoderCost(Cost):
    """What one encoder costs, with one thread of a CPU or on a GPU."""

    weight_bytes: int
    """The bytes of all weights, as they are loaded."""

    vector_bytes: int
    """The bytes of a vector in float32."""


class Comparison(Result):
    """Several encoders on the same tasks. It prints as a table."""

    evaluations: tuple[Evaluation, ...]

    differences: tuple[Difference, ...]
    """The differences of every encoder against each one before it, for every task and group."""

    calibrations: dict[str, Calibration] = {}
    """The calibrations by encoder, of those that were calibrated."""

    costs: dict[str, EncoderCost] = {}
    """What each encoder costs, of those whose cost was measured."""

    aggregation: Aggregation = "all"
    """How the correlations of the differences put a task's subsets together."""

    metric: Metric = "spearman"
    """The correlation of the differences."""

    def main_scores(self) -> dict[str, dict[str, float]]:
        """The first score of each task, and each average, by its name and by encoder."""
        main: dict[str, dict[str, float]] = {}
        for evaluation in self.evaluations:
            scores = evaluation.scores(self.aggregation, self.metric)
            for name in (*(task.name for task in evaluation.tasks), *evaluation.averages):
                if name in scores:
                    main.setdefault(name, {})[evaluation.encoder] = scores[name]
        return main

    def ranks(self, score: str) -> dict[str, int]:
        """The place of each encoder by a score.

        It is 1, and 1 more for each encoder that is better by more than chance.
        """
        ranks = {evaluation.encoder: 1 for evaluation in self.evaluations}
        for difference in self.differences:
            if difference.score != score or difference.tied:
                continue
            if difference.difference > 0:
                ranks[difference.against] += 1
            else:
                ranks[difference.encoder] += 1
        return ranks

    def __str__(self) -> str:
        scores = {}
        for evaluation in self.evaluations:
            scores[evaluation.encoder] = evaluation.scores(self.aggregation, self.metric)
        scores |= control_scores(self.evaluations, self.aggregation, self.metric)
        lines = [_scores_side_by_side(scores)]
        heading = ""
        for difference in self.differences:
            name = score_words(difference.score)
            encoders = f"{difference.encoder} against {difference.against}"
            if encoders != heading:
                heading = encoders
                lines.append(f"\n{heading}, with the 95 % interval of the difference")
            lines.append(f"{name}  {100 * difference.difference:+.2f} ({difference.words})")
        for evaluation in self.evaluations:
            lines += unbeaten_lines(evaluation, evaluation.encoder)
        return "\n".join(lines)


def control_scores(
    evaluations: Sequence[Evaluation], aggregation: Aggregation = "all", metric: Metric = "spearman"
) -> dict[str, dict[str, float]]:
    """The scores of the controls by their names, which are the same beside every encoder."""
    controls = chain.from_iterable(evaluation.controls for evaluation in evaluations)
    return {control.name: control.scores(aggregation, metric) for control in controls}


def unbeaten_lines(
    evaluation: Evaluation, name: str, title: Callable[[str], str] = str
) -> list[str]:
    """Says in a line for each control where the encoder of this name does not beat the control.

    `title` names a task or group.
    """
    lines = []
    for control in evaluation.controls:
        tasks = ", ".join(map(title, control.unbeaten))
        if tasks:
            lines.append(f"{name} is not better than {control.name} by more than chance on {tasks}")
    return lines


def _scores_side_by_side(scores: Mapping[str, Mapping[str, float]]) -> str:
    """A row for each score and a column for each encoder, from the scores by encoder."""
    rows = [["", *scores]]
    for name in dict.fromkeys(chain(*scores.values())):
        row = [name]
        for table in scores.values():
            row.append(printed(name, table[name]) if name in table else "-")
        rows.append(row)
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells, others, strict=True)]
        lines.append("  ".join([name.ljust(first), *aligned]))
    return "\n".join(lines)


def interval_ends(low: float, high: float) -> str:
    """The ends of an interval x 100."""
    return f"{100 * low:+.2f} to {100 * high:+.2f}"
