"""Options of the methods that learn from labelled rows, or from pairs that are known to mean the same."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from isotune.methods.options.base import (
    AugmentationName,
    AugmentedOptions,
    Count,
    MethodOptions,
    NotNegative,
    Positive,
    Rate,
    Sources,
)


class NLIOptions(MethodOptions):
    """SBERT-NLI: pairs are classified as contradiction, entailment or neutral from their two vectors."""

    max_square: bool = False
    """Classify from max(u, v)^2 too, besides u, v and |u - v| (ConSERT, equation 2). The published numbers did."""


class ConSERTJointOptions(AugmentedOptions):
    """ConSERT with labels: pairs are classified from their two vectors, and the views of each side are compared."""

    temperature: Positive = 0.1
    """Divides the cosine similarities. ConSERT, section 5.4."""

    augmentations: tuple[AugmentationName, AugmentationName] = ("none", "token_cutoff")
    """The augmentations of a sentence's two views: none, shuffle, token_cutoff, feature_cutoff, dropout, adversarial,
    or one of a plugin. The first view is the one that is classified. The default is that of the authors' script; the
    text names no pair."""

    alpha: NotNegative = 0.15
    """Weight of the contrastive loss. ConSERT, section 4.1. NT-Xent in the authors' code is twice that of the text, so
    their 0.15 is 0.3 here."""

    adversarial_norm: Positive = 1.0
    """Length of the noise that adversarial adds to each token. The authors' code; the text names none."""

    max_square: bool = False
    """Classify from max(u, v)^2 too, besides u, v and |u - v| (ConSERT, equation 2). The published numbers did."""


class SimCSESupervisedOptions(MethodOptions):
    """SimCSE with labels: the negatives of a premise are all other hypotheses, the contradicted ones too."""

    temperature: Positive = 0.05
    """Divides the cosine similarities. 0.05: the authors."""

    hard_negative_weight: float = 0.0
    """Added to the logit of a sentence's own hard negative. 0: the authors."""

    projection: bool = True
    """Add a linear layer with tanh to the encoder and keep it, as the authors do on the [CLS] vector."""


class CLSROptions(MethodOptions):
    """CLSR: layers on a frozen sentence encoder, trained by NT-Xent on pairs of sentences that mean the same."""

    temperature: Positive = 0.1
    """Divides the cosine similarities. CLSR, section 4.1."""

    width: Count = 768
    """Features of the hidden layer, of the sentence vector and of the projection. CLSR, section 4.1."""


MetricName = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]


class FinetuneOptions(MethodOptions):
    """The options of fine-tuning on sentences and on pairs."""

    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = ("accuracy",)
    """The metrics on the dev data: accuracy, f1, matthews, pearson or spearman. Their mean chooses the best step."""

    dropout: Rate = 0.1
    """Rate of the dropout before the output layer. 0.1: BERT."""

    heads: bool = False
    """Pass the [CLS] vector through the encoder's heads before the dropout. With pooling = "pooler" the head is BERT's
    own pooler, as in BERT's code."""

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
