"""Options of multitask fine-tuning."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from isotune.methods.options.base import Count, MethodOptions, NotNegative, Rate, Sources

Hinge = Annotated[float, Field(ge=-1, lt=1)]


class MultitaskOptions(MethodOptions):
    """BERT-CF's fine-tuning: sentiment, paraphrase and similarity in every update."""

    sentiment_data: Sources = ("sst5:train",)
    """Sentences with a label, to train on. BERT-CF, section 5.1."""

    paraphrase_data: Sources = ("quora-rest:train",)
    """Pairs with the label 1 (paraphrases) or 0, to train on. BERT-CF, section 5.1."""

    similarity_data: Sources = ("minbert-sts:train",)
    """Pairs with a score, to train on. This is the split of STS-B in the files of the CS224N project; BERT-CF calls it
    "STS-13"."""

    sentiment_dev: Sources = ("sst5:dev",)
    """Sentences with a label, for the accuracy."""

    paraphrase_dev: Sources = ("minbert-quora:dev",)
    """Pairs with the label 1 or 0, for the accuracy."""

    similarity_dev: Sources = ("minbert-sts:dev",)
    """Pairs with a score, for Pearson's correlation. The mean of the three metrics chooses the best step."""

    sentiment_test: tuple[str, ...] = ()
    """Sentences with a label, for the accuracy of the kept step. Unset: it isn't measured, and so for the next two."""

    paraphrase_test: tuple[str, ...] = ()
    """Pairs with the label 1 or 0, for the accuracy of the kept step."""

    similarity_test: tuple[str, ...] = ()
    """Pairs with a score, for Pearson's correlation of the kept step."""

    sentiment_classes: Annotated[tuple[str, ...], Field(min_length=2)] = ("0", "1", "2", "3", "4")
    """The labels of the sentences. The default is SST-5's."""

    similarity_scale: tuple[float, float] = (0.0, 5.0)
    """The lowest and the highest score. The default is STS's."""

    @field_validator("similarity_scale")
    @classmethod
    def _ascending(cls, scale: tuple[float, float]) -> tuple[float, float]:
        if not scale[0] < scale[1]:
            raise ValueError("the least score comes first, and the greatest is larger")
        return scale

    sentiment_batch_size: Count = 32
    """Sentences with a label in an update. BERT-CF, section 5.3."""

    paraphrase_batch_size: Count = 96
    """Pairs with a label in an update. BERT-CF, section 5.3."""

    similarity_batch_size: Count = 32
    """Pairs with a score in an update. BERT-CF, section 5.3."""

    sentiment_weight: NotNegative = 5.0
    """Weight of the sentiment loss. BERT-CF, section 5.3."""

    paraphrase_weight: NotNegative = 20.0
    """Weight of the paraphrase loss. BERT-CF, section 5.3."""

    similarity_weight: NotNegative = 1.0
    """Weight of the similarity loss. BERT-CF, section 5.3."""

    projection: Count = 768
    """Features of the two projections whose cosine is taken. BERT-CF, section 5.3."""

    paraphrase_hinge: Hinge = 0.7
    """Lower cosines count as this much. Pairs above the middle between it and 1 are called paraphrases. BERT-CF,
    section 5.3."""

    similarity_hinge: Hinge = 0.0
    """Lower cosines count as this much, which stands for the lowest score. BERT-CF, section 5.3."""

    sentiment_dropout: Rate = 0.3
    """Rate of the dropout before the sentiment layer. BERT-CF, section 5.3."""

    similarity_dropout: Rate = 0.1
    """Rate of the dropout before the similarity layer. BERT-CF, section 5.3."""

    def training_sources(self) -> tuple[str, ...]:
        """The data of the three tasks."""
        return (*self.sentiment_data, *self.paraphrase_data, *self.similarity_data)

    def dev_sources(self) -> tuple[str, ...]:
        """The dev data and the test data of the three tasks."""
        dev = (*self.sentiment_dev, *self.paraphrase_dev, *self.similarity_dev)
        return (*dev, *self.sentiment_test, *self.paraphrase_test, *self.similarity_test)
