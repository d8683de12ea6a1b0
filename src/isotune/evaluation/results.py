"""What an evaluation found, as frozen models with an exact JSON round trip.

Correlations are in [-1, 1] and accuracies in [0, 1]; only tables print them x 100. Every correlation over a task is
given in the three aggregations that the literature uses, which differ by several points and are easily confused.
`model_dump_json` and `model_validate_json` write and read every class here. `scores` of a result is its numbers as one
flat table, which is what studies and reports go by.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from isotune.errors import unknown

Aggregation = Literal["all", "mean", "wmean"]
Metric = Literal["spearman", "pearson"]
Correlation = Annotated[float, Field(ge=-1, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Aggregates(_Result):
    """One correlation of a task, in the three ways a task's subsets are put together."""

    all: Correlation
    """One correlation over all subsets concatenated, the default: SBERT, SimCSE, ConSERT (section 4.1)."""
    mean: Correlation
    """The unweighted mean of the subsets' correlations: SentEval."""
    wmean: Correlation
    """The same mean, weighted by the subsets' numbers of pairs: SentEval."""


class Correlations(_Result):
    """Both correlations, each in every aggregation."""

    spearman: Aggregates
    pearson: Aggregates

    def correlation(self, aggregation: Aggregation, metric: Metric) -> float:
        """One of them."""
        value: float = getattr(getattr(self, metric), aggregation)
        return value


class SubsetResult(_Result):
    """The correlations of one subset; None where its gold scores are all equal, so that none is defined."""

    pairs: int
    spearman: Correlation | None
    pearson: Correlation | None


class STSResult(Correlations):
    """How well an encoder's cosines follow the gold scores of one task."""

    kind: Literal["sts"] = "sts"
    name: str
    split: str
    pairs: int
    subsets: dict[str, SubsetResult]

    def scores(self, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """The correlation asked for, under the task's name."""
        return {self.name: self.correlation(aggregation, metric)}


class TransferResult(_Result):
    """How well a classifier on an encoder's frozen vectors does."""

    kind: Literal["transfer"] = "transfer"
    name: str
    classifier: str
    """What was trained on the vectors."""
    protocol: str
    """What it was trained, chosen and tested on."""
    rows: int
    """Those that were tested on."""
    accuracy: Share
    f1: Share | None
    """Of class 1; of tasks that report it (MRPC), None for the others."""
    dev_accuracy: Share | None
    """What the regularisation was chosen by; None where it is fixed."""
    regularisation: tuple[Finite, ...]
    """Of each classifier that was tested."""

    def scores(self, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """The accuracy under the task's name, and F1, if there is one, under NAME-f1."""
        return {self.name: self.accuracy} | ({} if self.f1 is None else {f"{self.name}-f1": self.f1})


class GeometryResult(_Result):
    """How an encoder's vectors lie on the unit sphere."""

    kind: Literal["geometry"] = "geometry"
    name: str
    data: str
    """The pairs whose sentences were encoded, such as "stsb:dev"."""
    sentences: int
    """Distinct ones, each counted once."""
    positives: int
    """Pairs whose alignment was measured."""
    positive: str
    """What makes a pair a positive."""
    normalisation: str
    """What was done to the vectors before."""
    alignment: Finite
    uniformity: Finite
    mean_cosine: Finite
    isotropy: Finite
    effective_rank: Finite

    def scores(self, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """Each measure under its name; of another task than "geometry" that has the task's name before it."""
        prefix = "" if self.name == "geometry" else f"{self.name}-"
        return {f"{prefix}{measure}": getattr(self, measure) for measure in MEASURES}


MEASURES = ("alignment", "uniformity", "mean_cosine", "isotropy", "effective_rank")
TaskResult: TypeAlias = STSResult | TransferResult | GeometryResult


class Average(Correlations):
    """The mean over the tasks of a group that are correlations, in each aggregation."""

    def scores(self, group: str, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """The correlation asked for, under the group's name."""
        return {group: self.correlation(aggregation, metric)}


class AverageAccuracy(_Result):
    """The mean over the tasks of a group that are accuracies."""

    accuracy: Share

    def scores(self, group: str, aggregation: Aggregation, metric: Metric) -> dict[str, float]:
        """The accuracy, under the group's name."""
        return {group: self.accuracy}


class Evaluation(_Result):
    """One encoder on several tasks, with what made the numbers."""

    encoder: str
    """The encoder's name or path."""
    tasks: tuple[TaskResult, ...]
    averages: dict[str, Average | AverageAccuracy]
    """By the group's name; of those groups all of whose tasks were evaluated."""
    versions: dict[str, str]
    created: AwareDatetime

    def scores(self, aggregation: Aggregation = "all", metric: Metric = "spearman") -> dict[str, float]:
        """All numbers as one flat table, the groups' averages last.

        The keys: an STS task (its correlation) or a transfer task (its accuracy) by its name, also "mrpc-f1"; a group;
        the measures of geometry, such as "alignment", and "geometry-qqp-alignment" of another task than "geometry".

        Args:
            aggregation: of the correlations; see `Aggregates`.
            metric: which correlation.

        Raises:
            InputError: there is no such aggregation or metric.
        """
        for kind, got, allowed in (("aggregation", aggregation, Aggregation), ("metric", metric, Metric)):
            if got not in get_args(allowed):
                raise unknown(kind, got, get_args(allowed))
        table: dict[str, float] = {}
        for task in self.tasks:
            table |= task.scores(aggregation, metric)
        for group, average in self.averages.items():
            table |= average.scores(group, aggregation, metric)
        return table


class RunEvaluation(_Result):
    """A run's `evaluation.json`: the start and the encoder kept, on the same tasks."""

    before: Evaluation
    after: Evaluation
    selected_step: int
    """The training step of the encoder kept; 0 is the untouched start."""
