"""Options of fine-tuning on one task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotune.methods.options.base import MethodOptions, Rate

MetricName = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]


class FinetuneOptions(MethodOptions):
    """What fine-tuning on sentences and on pairs have in common."""

    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = ("accuracy",)
    """What is measured on the dev data: accuracy, f1, matthews, pearson or spearman. Their mean chooses the step."""

    dropout: Rate = 0.1
    """Rate of the dropout before the output layer. BERT's own."""

    dev_data: Annotated[tuple[str, ...], Field(min_length=1)]
    """Labelled rows on which the metrics are measured."""

    def dev_sources(self) -> tuple[str, ...]:
        """The labelled rows on which the metrics are measured."""
        return self.dev_data


class FinetuneSentenceOptions(FinetuneOptions):
    """GLUE-style fine-tuning on sentences: a class from the [CLS] vector."""

    classes: Annotated[tuple[str, ...], Field(min_length=2)] = ("0", "1")
    """The labels: SST-2's. f1 is that of the second one."""

    dev_data: Annotated[tuple[str, ...], Field(min_length=1)] = ("sst2:dev",)
    """Labelled sentences on which the metrics are measured."""


class FinetunePairOptions(FinetuneOptions):
    """GLUE-style fine-tuning on pairs: a class or a score from the [CLS] vector of both texts as one sequence."""

    classes: tuple[str, ...] = ("entailment", "not_entailment")
    """The labels: RTE's and QNLI's. f1 is that of the second one. With none, pairs have scores, which are predicted."""

    dev_data: Annotated[tuple[str, ...], Field(min_length=1)] = ("rte:dev",)
    """Labelled (or scored) pairs on which the metrics are measured."""
