"""Options of multitask fine-tuning."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from isotune.methods.options.base import MethodOptions, Rate

Weight = Annotated[float, Field(ge=0)]
BatchSize = Annotated[int, Field(ge=1)]
Hinge = Annotated[float, Field(ge=-1, lt=1)]
Sources = Annotated[tuple[str, ...], Field(min_length=1)]


class MultitaskOptions(MethodOptions):
    """BERT-CF's fine-tuning: sentiment, paraphrase and similarity in every update."""

    sentiment_data: Sources = ("sst5:train",)
    """Sentences with a label, in place of data. BERT-CF, section 5.1."""

    paraphrase_data: Sources = ("qqp:train",)
    """Pairs with the label 1 (paraphrases) or 0. BERT-CF, section 5.1."""

    similarity_data: Sources = ("minbert-sts:train",)
    """Pairs with a score. BERT-CF's "STS-13" is this split of STS-B in the CS224N project's files."""

    sentiment_dev: Sources = ("sst5:dev",)
    """Sentences with a label; accuracy."""

    paraphrase_dev: Sources = ("minbert-quora:dev",)
    """Pairs with the label 1 or 0; accuracy."""

    similarity_dev: Sources = ("minbert-sts:dev",)
    """Pairs with a score; Pearson's correlation. The mean of the three metrics chooses the encoder that is kept."""

    sentiment_classes: Annotated[tuple[str, ...], Field(min_length=2)] = ("0", "1", "2", "3", "4")
    """The labels of the sentences: SST-5's."""

    similarity_scale: tuple[float, float] = (0.0, 5.0)
    """The least and the greatest score: STS's."""

    @field_validator("similarity_scale")
    @classmethod
    def _ascending(cls, scale: tuple[float, float]) -> tuple[float, float]:
        if not scale[0] < scale[1]:
            raise ValueError("the least score comes first, and the greatest is larger")
        return scale

    sentiment_batch_size: BatchSize = 32
    """Sentences in an update. BERT-CF, section 5.3."""

    paraphrase_batch_size: BatchSize = 96
    """Labelled pairs in an update. BERT-CF, section 5.3."""

    similarity_batch_size: BatchSize = 32
    """Scored pairs in an update. BERT-CF, section 5.3."""

    sentiment_weight: Weight = 5.0
    """Weight of the sentiment loss. BERT-CF, section 5.3."""

    paraphrase_weight: Weight = 20.0
    """Weight of the paraphrase loss. BERT-CF, section 5.3."""

    similarity_weight: Weight = 1.0
    """Weight of the similarity loss. BERT-CF, section 5.3."""

    projection: Annotated[int, Field(ge=1)] = 768
    """Features of the two projections whose cosine is taken. BERT-CF, section 5.3."""

    paraphrase_hinge: Hinge = 0.7
    """Cosines below it count as this much; pairs halfway from it to 1 are called paraphrases. BERT-CF, section 5.3."""

    similarity_hinge: Hinge = 0.0
    """Cosines below it count as this much, and it is the least score. BERT-CF, section 5.3."""

    sentiment_dropout: Rate = 0.3
    """Rate of the dropout before the sentiment layer. BERT-CF, section 5.3."""

    similarity_dropout: Rate = 0.1
    """Rate of the dropout before the similarity layer. BERT-CF, section 5.3."""

    def training_sources(self) -> tuple[str, ...]:
        """The sources of the three tasks."""
        return (*self.sentiment_data, *self.paraphrase_data, *self.similarity_data)

    def dev_sources(self) -> tuple[str, ...]:
        """The dev data of the three tasks."""
        return (*self.sentiment_dev, *self.paraphrase_dev, *self.similarity_dev)
