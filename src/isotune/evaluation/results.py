"""The results of an evaluation, as frozen models that JSON round-trips exactly.

Correlations lie in [-1, 1] and accuracies in [0, 1]; only tables print them x 100. Each correlation over a task is
given in the three aggregations that the literature uses: they differ by several points and are easily confused.
`model_dump_json` writes every class here and `model_validate_json` reads it. Each result's `scores` is a flat table of
its numbers, which studies and reports read.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, computed_field

from isotune.encoder.calibration import Calibration
from isotune.errors import InputError, invalid, telling, unknown

Aggregation = Literal["all", "mean", "wmean"]
Metric = Literal["spearman", "pearson"]
Correlation = Annotated[float, Field(ge=-1, le=1)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def check_way(aggregation: str, metric: str) -> None:
    """Checks the names; raises `InputError` if there is no such aggregation or metric."""
    for kind, given, allowed in (
        ("aggregation", aggregation, Aggregation),
        ("metric", metric, Metric),
    ):
        if given not in get_args(allowed):
            raise unknown(kind, given, get_args(allowed))


class Result(BaseModel):
    """What all results share: they never change, and have no other fields than their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a result's file of JSON; raises `InputError` if the file is missing or damaged."""
        try:
            with telling(OSError, f"{path}: it can't be read"):
                return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise InputError(
                f"{invalid(str(path), error)}; the command that wrote this file makes it again"
            ) from error


class Aggregates(Result):
    """A task's correlation, with its subsets put together in three ways."""

    all: Correlation  # over all subsets concatenated, the default: SBERT, SimCSE, ConSERT (section 4.1)
    mean: Correlation  # the unweighted mean of the subsets' correlations: SentEval
    wmean: Correlation  # their mean, weighted by the subsets' numbers of pairs: SentEval


class Correlations(Result):
    """Both correlations of a task, or their means over the tasks of a group, in every aggregation."""

    spearman: Aggregates
    pearson: Aggregates

    def correlation(self, aggregation: Aggregation, metric: Metric) -> float:
        """One of the correlations."""
        return getattr(getattr(self, metric), aggregation)


class SubsetResult(Result):
    """The correlations of one subset; None if its gold scores are all equal, so that no correlation is defined."""

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

    def scores(self, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """The correlation that is asked for, under the task's name."""
        return {self.name: self.correlation(aggregation, metric)}


class TransferResult(Result):
    """How well a classifier on an encoder's frozen vectors does."""

    kind: Literal["transfer"] = "transfer"
    name: str
    classifier: str  # that was trained on the vectors
    protocol: str  # what the classifier was trained, chosen and tested on
    rows: int  # the number of rows tested on
    accuracy: Fraction
    f1: Fraction | None  # of class 1, for tasks that report it (MRPC); None for the others
    macro_f1: Fraction | None = (
        None  # the mean of the classes' F1, for texts with labels of the user
    )
    largest_class: Fraction | None = None  # its share of the rows tested on
    copies: int = (
        0  # rows that are copies of others, and stand in their fold; 0 if copies count as texts
    )
    dev_accuracy: (
        Fraction | None
    )  # by which the regularisation was chosen; None if the regularisation is fixed
    regularisation: tuple[Finite, ...]  # its strength, for each classifier that was tested

    def scores(self, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """The accuracy under the task's name; F1 and macro F1, if there are any, under NAME-f1 and NAME-macro-f1."""
        more = {f"{self.name}-f1": self.f1, f"{self.name}-macro-f1": self.macro_f1}
        return {self.name: self.accuracy} | {
            key: value for key, value in more.items() if value is not None
        }


class GeometryResult(Result):
    """How an encoder's vectors lie on the unit sphere."""

    kind: Literal["geometry"] = "geometry"
    name: str
    data: str  # the pairs whose sentences were encoded, such as "stsb:dev"
    sentences: int  # the number of distinct sentences
    positives: int  # the number of positive pairs, over which alignment was measured
    positive: str  # what makes a pair positive
    normalisation: str  # what was done to the vectors before measuring
    alignment: Finite
    uniformity: Finite
    mean_cosine: Finite
    effective_rank: Finite

    def scores(self, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """Each measure: of the task "geometry" under the measure's name, of any other under TASK-MEASURE."""
        prefix = "" if self.name == "geometry" else f"{self.name}-"
        return {f"{prefix}{measure}": getattr(self, measure) for measure in MEASURES}


class RetrievalResult(Result):
    """How well an encoder finds the documents that answer queries; each measure is the mean over the queries."""

    kind: Literal["retrieval"] = "retrieval"
    name: str
    queries: int
    documents: int
    measures: dict[str, Fraction]  # by the names of `RANKING_MEASURES`

    def scores(self, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """NDCG under the task's name, and each other measure under NAME-MEASURE."""
        return dict(zip(ranking_scores(self.name), self.measures.values(), strict=True))


RANKING_MEASURES = ("ndcg@10", "mrr@10", "recall@1", "recall@10", "recall@100")


def ranking_scores(task: str) -> list[str]:
    """The names of a retrieval task's scores, in the order of `RANKING_MEASURES`."""
    return [task, *(f"{task}-{measure}" for measure in RANKING_MEASURES[1:])]


class NamedScores(Result):
    """The scores of a task that a plugin defines, between -1 and 1; higher is better."""

    kind: Literal["scores"] = "scores"
    name: str
    values: dict[
        str, Correlation
    ]  # by the task's name, or by TASK-SCORE if the task has several scores

    def scores(self, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """The scores."""
        return dict(self.values)


MEASURES = ("alignment", "uniformity", "mean_cosine", "effective_rank")


def printed(score: str, value: float) -> str:
    """A score's value as text: x 100, but for `MEASURES`."""
    return f"{value:.4f}" if score.endswith(MEASURES) else f"{100 * value:.2f}"


TaskResult: TypeAlias = STSResult | TransferResult | GeometryResult | RetrievalResult | NamedScores


class AverageAccuracy(Result):
    """The mean accuracy over the tasks of a group."""

    accuracy: Fraction


class Evaluation(Result):
    """The results of one encoder on several tasks, with the versions that made them."""

    encoder: str  # its name or path
    tasks: tuple[TaskResult, ...]
    averages: dict[
        str, Correlations | AverageAccuracy
    ]  # by group, for each group all of whose tasks were evaluated
    versions: dict[str, str]
    created: AwareDatetime

    def scores(
        self, aggregation: Aggregation = "all", metric: Metric = "spearman"
    ) -> dict[str, float]:
        """All numbers as one flat table: the scores of each result, and last the groups' averages by their names."""
        check_way(aggregation, metric)
        table: dict[str, float] = {}
        for task in self.tasks:
            table |= task.scores(aggregation, metric)
        for group, mean in self.averages.items():
            table[group] = (
                mean.accuracy
                if isinstance(mean, AverageAccuracy)
                else mean.correlation(aggregation, metric)
            )
        return table


class Difference(Result):
    """How much higher an encoder scores than another on the same rows, with the 95 % interval of the paired bootstrap.

    The bootstrap draws the rows of each task again, with replacement and for both encoders alike, each subset by
    itself. Another sample of as many rows gives a difference in this interval 95 times in a hundred.
    """

    encoder: str
    against: str  # the other encoder
    score: str  # a task or a group, by its name in `Evaluation.scores`
    difference: Finite  # the first encoder's score minus the other's
    low: Finite
    high: Finite

    @property
    def tied(self) -> bool:
        """Whether the interval holds 0: the rows can't tell which encoder is better."""
        return self.low <= 0 <= self.high

    @property
    def words(self) -> str:
        """The interval x 100, and what it says: "+1.02 to +2.30, better", "-0.40 to +0.11, tied"."""
        verdict = "tied" if self.tied else "better" if self.difference > 0 else "worse"
        return f"{100 * self.low:+.2f} to {100 * self.high:+.2f}, {verdict}"


class Comparison(Result):
    """Several encoders on the same tasks."""

    evaluations: tuple[Evaluation, ...]
    differences: tuple[
        Difference, ...
    ]  # of every encoder against each one before it, for every task and group
    calibrations: dict[str, Calibration] = {}  # by encoder, of those that were calibrated

    def ranks(self, score: str) -> dict[str, int]:
        """The place of each encoder by a score: 1, and 1 more for each encoder that is better by more than chance."""
        ranks = {evaluation.encoder: 1 for evaluation in self.evaluations}
        for each in self.differences:
            if each.score == score and not each.tied:
                ranks[each.against if each.difference > 0 else each.encoder] += 1
        return ranks


class DevGain(Result):
    """The score on the dev data, before training and of the encoder kept, and how sure the gain is."""

    name: str
    unit: Literal[
        "pairs", "queries", "texts"
    ]  # scored by Spearman's correlation, by nDCG, or by accuracy
    rows: int  # how many of them there are
    before: Correlation
    after: Correlation
    low: Finite  # low and high are the ends of the gain's 95 % interval, by the bootstrap over the rows
    high: Finite


class Verdict(Result):
    """Which encoder to use after a run, and why."""

    word: Literal[
        "NEW", "KEEP", "CAN'T TELL"
    ]  # the encoder kept; the start; or the scores don't say
    why: str

    def __str__(self) -> str:
        return f"{WORDS[self.word]}: {self.why}"


class RunEvaluation(Result):
    """A run's `evaluation.json`: the encoder before training and the encoder kept, on the same tasks."""

    model_config = ConfigDict(
        extra="ignore"
    )  # the verdict that stands in the file; it is derived anew

    before: Evaluation
    after: Evaluation
    selected_step: int  # of the encoder kept; 0 is the untouched start
    differences: tuple[Difference, ...] = ()  # of the encoder kept against the start, by task
    dev: DevGain | None = None  # None without dev data
    dev_is_general: bool = False  # whether the dev data are the bundled pairs, and so say nothing about the user's text
    own_tasks: tuple[
        str, ...
    ] = ()  # the tasks and groups that the run was given and that speak for the user's text
    trained_on: tuple[
        str, ...
    ] = ()  # tasks and dev data whose rows were trained on, which judge nothing
    labels: tuple[Finite, Finite] | None = (
        None  # mean score on labelled dev rows, before and after, if they chose
    )
    ends: tuple[str, ...] = ()  # why each stage ended
    pooled: str = (
        ""  # how the start was pooled, if not as its folder says, as `isotune evaluate` pools it
    )

    @property
    def _judged(self) -> Sequence[Difference]:  # of averages, or else of tasks
        tasks = {task.name for task in self.after.tasks}  # of several scores of a task, the first
        of_tasks = [each for each in self.differences if each.score in tasks]
        return [each for each in self.differences if each.score in self.after.averages] or of_tasks

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """Which encoder to use. Log, report and model card say what stands here.

        NEW needs a gain of more than chance: on a task that the run was given, or, if it was given none, on the dev
        data, which chose the step. Other tasks, general pairs, and rows that were trained on say nothing about new text
        of the user, but a loss there counts. Where labelled rows choose the step, and the run was given no task, any
        gain on these rows is NEW; chance is not tested.
        """
        own = [each for each in self.differences if each.score in self.own_tasks]
        if self.labels and not own:
            before, after = self.labels
            if after > before:
                return Verdict(word="NEW", why="the labelled dev rows are predicted better")
            return Verdict(word="KEEP", why="the labelled dev rows are predicted no better")
        if not self.selected_step:
            return Verdict(word="KEEP", why="no step was better")
        if worse := [each.score for each in self._judged if each.difference < 0 and not each.tied]:
            return Verdict(
                word="KEEP",
                why=f"it is worse by more than chance on {', '.join(map(self._shown, worse))}",
            )
        if self.dev and self.dev.after <= self.dev.before:
            return Verdict(word="KEEP", why="the dev data gain nothing")
        own_dev = (
            [self.dev]
            if self.dev and not self.dev_is_general and self.dev.name not in self.trained_on
            else []
        )
        if any(each.low > 0 for each in own or own_dev):
            return Verdict(word="NEW", why="the gain is more than chance")
        if own or own_dev:
            return Verdict(word="CAN'T TELL", why="the change may be chance")
        return Verdict(word="CAN'T TELL", why=TRAINED_ON if self.trained_on else UNJUDGED)

    @property
    def to_use(self) -> bool:
        """Whether commands name the kept encoder: it is NEW or is the start, or they pool the start otherwise."""
        return self.verdict.word == "NEW" or not self.selected_step or bool(self.pooled)

    def _shown(self, score: str) -> str:
        """A score's name without the folders of a file, if no other score has that name."""
        short = [FOLDERS.sub("", each.score) for each in self.differences]
        name = FOLDERS.sub("", score)
        return name if short.count(name) == 1 else score

    @property
    def changes(self) -> list[str]:
        """The scores x 100 before and after, with the interval of each change; first those that chose the step."""
        before, after = self.before.scores(), self.after.scores()
        measures = {task.name: MEASURED.get(task.kind, "") for task in self.after.tasks}
        changes = []
        for each in self._judged:
            name = self._shown(each.score) + measures.get(each.score, "")
            changes.append(
                f"{_change(name, before[each.score], after[each.score])} (95 % interval {each.words})"
            )
        if self.dev:
            name = f"dev data ({FOLDERS.sub('', self.dev.name)}), which chose the step,"
            ends = f"(95 % interval {100 * self.dev.low:+.2f} to {100 * self.dev.high:+.2f})"
            changes.insert(0, f"{_change(name, self.dev.before, self.dev.after)} {ends}")
        if self.labels and not self.own_tasks:
            changes.insert(
                0, _change("labelled dev rows, by layers that start untrained,", *self.labels)
            )
        return changes

    @property
    def decision(self) -> str:
        """The verdict and the changes, in one line."""
        return "; ".join([str(self.verdict), *(self.changes if self.selected_step else ())])


def _change(name: str, before: float, after: float) -> str:
    return f"{name} {100 * before:.2f} -> {100 * after:.2f}"


UNJUDGED = "nobody has scored pairs of this text"
TRAINED_ON = "it was trained on the rows that judge it; keep some rows out of the training"
# The verdicts as the log says them.
WORDS = {"NEW": "NEW", "KEEP": "KEEP the start", "CAN'T TELL": "CAN'T TELL, keep the start for now"}
FOLDERS = re.compile(r"(?<![^:])/[^,]*/")  # of a file in the name of a task
MEASURED = {
    "retrieval": " (nDCG@10)",
    "transfer": " (accuracy)",
}  # what scores of these kinds of task are
