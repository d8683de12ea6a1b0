"""What an evaluation found, as frozen models with an exact JSON round trip.

Values are correlations in [-1, 1]; only tables print them x 100. Every correlation over a task is given in
the three aggregations that the literature uses, which differ by several points and are easily confused.
`model_dump_json` and `model_validate_json` write and read every class here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Aggregation = Literal["all", "mean", "wmean"]
Metric = Literal["spearman", "pearson"]
Correlation = Annotated[float, Field(ge=-1, le=1)]


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


class SubsetResult(_Result):
    """The correlations of one subset; None where its gold scores are all equal, so that none is defined."""

    pairs: int
    spearman: Correlation | None
    pearson: Correlation | None


class STSResult(_Result):
    """How well an encoder's cosines follow the gold scores of one task."""

    name: str
    split: str
    pairs: int
    spearman: Aggregates
    pearson: Aggregates
    subsets: dict[str, SubsetResult]


class Average(_Result):
    """The mean over the tasks of a named group, in each aggregation."""

    group: str
    spearman: Aggregates
    pearson: Aggregates


class Evaluation(_Result):
    """One encoder on several tasks, with what made the numbers."""

    encoder: str
    """The encoder's name or path."""
    tasks: tuple[STSResult, ...]
    average: Average | None
    """None unless all tasks of the group "sts" were evaluated: no other set has an average that is agreed."""
    versions: dict[str, str]
    created: AwareDatetime


class RunEvaluation(_Result):
    """A run's `evaluation.json`: the start and the encoder kept, on the same tasks."""

    before: Evaluation
    after: Evaluation
    selected_step: int
    """The training step of the encoder kept; 0 is the untouched start."""
