"""Options of fine-tuning on one task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotune.methods.options.base import MethodOptions, Rate, Sources

MetricName = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]


class FinetuneOptions(MethodOptions):
    """The options of fine-tuning on sentences and on pairs."""

    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = ("accuracy",)
    """The metrics on the dev data: accuracy, f1, matthews, pearson or spearman. Their mean chooses the best step."""

    dropout: Rate = 0.1
    """Rate of the dropout before the output layer. 0.1: BERT."""

    dev_data: Sources
    """Labelled rows on which the metrics are computed."""

    dev_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the dev data, from the first row on, that chooses the best step. The other rows then score that step.
    1: no row is left for that. The self-guided paper has 0.1 (A.4)."""

    def dev_sources(self) -> tuple[str, ...]:
        """The labelled rows on which the metrics are computed."""
        return self.dev_data


class FinetuneSentenceOptions(FinetuneOptions):
    """GLUE-style fine-tuning on sentences: a class from the [CLS] vector."""

    classes: Annotated[tuple[str, ...], Field(min_length=2)] = ("0", "1")
    """The labels of the classes. f1 is that of the second class. The default is SST-2's."""

    dev_data: Sources = ("sst2:dev",)
    """Labelled sentences on which the metrics are computed."""


class FinetunePairOptions(FinetuneOptions):
    """GLUE-style fine-tuning on pairs: a class or a score from the [CLS] vector of both texts as one sequence."""

    classes: tuple[str, ...] = ("entailment", "not_entailment")
    """The labels of the classes; with none, the method predicts the scores of scored pairs. f1 is that of the second
    class. The default is RTE's and QNLI's."""

    dev_data: Sources = ("rte:dev",)
    """Labelled or scored pairs on which the metrics are computed."""
