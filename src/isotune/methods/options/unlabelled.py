"""Options of the methods that learn from text alone, or from paraphrases that text is made into."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from isotune.methods.options.base import (
    AugmentationName,
    AugmentedOptions,
    Count,
    MethodOptions,
    NotNegative,
    Positive,
    Rate,
)


class SimCSEOptions(AugmentedOptions):
    """SimCSE without labels: the two views of a sentence differ only by the model's dropout."""

    temperature: Positive = 0.05
    """Divides the cosine similarities. 0.05: the authors."""

    projection: bool = True
    """Train through a linear layer with tanh, which is dropped after training, as the authors do on the [CLS]
    vector."""


class ConSERTOptions(AugmentedOptions):
    """ConSERT without labels: two views by augmentations in the embedding layer, compared by NT-Xent."""

    temperature: Positive = 0.1
    """Divides the cosine similarities. ConSERT, section 5.4."""

    augmentations: tuple[AugmentationName, AugmentationName] = ("feature_cutoff", "shuffle")
    """The augmentations of a sentence's two views: none, shuffle, token_cutoff, feature_cutoff, dropout, or one of a
    plugin. The default is the best pair of ConSERT's Figure 5."""

    least_told_apart: Rate = 0.0
    """Without dev pairs, keep the start if it finds the second view of a sentence among those of 256 sentences for a
    smaller share than this. Such sentences differ by few words, and training on the views has an encoder overlook
    these. 0, as in the paper, always trains."""


class MirrorOptions(AugmentedOptions):
    """MirrorBERT: a sentence is compared with itself with a masked span, both under dropout."""

    temperature: Positive = 0.04
    """Divides the cosine similarities. The authors' scripts: 0.04 for sentences and phrases, 0.2 for words."""

    spans: Literal["characters", "tokens"] = "characters"
    """What is masked: characters of the text, all by one mask (MirrorBERT), or tokens, each by a mask (BERT-CF, section
    4.1)."""

    span_length: Annotated[int, Field(ge=0)] = 5
    """Characters of a span, or tokens of the longest span. 5: MirrorBERT and BERT-CF. With 0 nothing is masked, and the
    method is SimCSE (BERT-CF, section 5.3)."""

    span_rate: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Success probability of the geometric distribution of the length of token spans. BERT-CF, section 5.3."""

    symmetric: bool = True
    """Both views are queries, as in MirrorBERT. In BERT-CF's formula only the unmasked view is (section 4.1)."""


class SNCSEOptions(AugmentedOptions):
    """SNCSE, without labels: the negation of a sentence is a soft negative, a little less similar than a view."""

    temperature: Positive = 0.05
    """Divides the cosine similarities of InfoNCE. The authors' code."""

    margin_weight: NotNegative = 1e-3
    """Weight (lambda) of the bidirectional margin loss. 1e-3: the authors for BERT, and the small-BERT paper; 5e-4: the
    authors for RoBERTa."""

    alpha: Annotated[float, Field(ge=0, le=2)] = 0.1
    """Least amount by which the cosine with the negation should be lower than that of the two views. The authors'
    code."""

    beta: Annotated[float, Field(ge=0, le=2)] = 0.3
    """Greatest amount by which the cosine with the negation should be lower. 0.3: the authors' code; the small-BERT
    paper has 2.0."""

    prompts: bool = True
    """Train with the authors' prompts, on the vector of their mask token, and leave this prompt and pooling in the
    encoder. With --no-prompts, prompt and pooling stay as they are, as in the small-BERT paper."""

    projection: bool = True
    """Train through a linear layer with tanh, which is dropped after training, as the authors do."""

    parser: Annotated[str, Field(min_length=1)] = "auto"
    """How the verb to negate is found: words (a list of auxiliaries, which needs nothing), a spaCy model by name or
    folder, or auto (spaCy's en_core_web_sm, which the authors use, if it is installed, otherwise words)."""

    @model_validator(mode="after")
    def _ordered_margins(self) -> SNCSEOptions:
        if self.alpha > self.beta:
            raise ValueError(f"alpha {self.alpha:g} is above beta {self.beta:g}: no difference would do for both")
        return self


Objective = Literal["base", "opt1", "opt2", "opt3"]


class TetheredOptions(AugmentedOptions):
    """The options of all methods of the paper."""

    temperature: Positive = 0.01
    """Divides the cosine similarities. Self-guided paper, Table 8."""

    projection: bool = True
    """Compare vectors after two layers of 4096 features with GELU, which are dropped after training. Self-guided paper,
    section 3.1; without the layers, its Table 5 loses 1.84 points."""

    regularizer: NotNegative = 0.1
    """Weight (lambda) of the squared distance of all weights from their starting values. Self-guided paper, Table 8."""


class SelfGuidedOptions(TetheredOptions):
    """Self-guided contrastive learning: the layers of a fixed copy of the model give the views of a sentence."""

    objective: Objective = "opt3"
    """The loss of the self-guided paper, section 3.2: base is SG, opt3 is SG-OPT, opt1 and opt2 are the steps
    between."""

    view_pooling: Literal["max", "mean", "cls"] = "max"
    """How the tokens of a layer of the fixed copy become one vector. max: self-guided paper, section 3.1; mean: its
    SentEval runs, and the authors' code."""

    view_layers: tuple[int, ...] = ()
    """The layers of the fixed copy that are views; 0 is the embeddings. The self-guided paper takes all layers, but not
    the first ones for SentEval (A.3). Unset: all."""

    frozen_dropout: bool = False
    """Keep dropout on in the fixed copy. The authors' code does so by accident; it is not known whether the
    published numbers were made so."""


class ParaphraseOptions(MethodOptions):
    """Where the paraphrases come from."""

    translate: tuple[str, str] | None = None
    """Make the paraphrases by translating each sentence with the first model and back with the second: folders or names
    on the Hugging Face hub, such as Helsinki-NLP/opus-mt-en-de Helsinki-NLP/opus-mt-de-en. Unset: read them; the data
    are pairs of a sentence and its paraphrase."""

    beams: Count = 100
    """Width of the translation's beam search; its time and memory grow with the width. Self-guided paper, A.2."""

    def extra_models(self) -> tuple[str, ...]:
        """The translation models, if the paraphrases are made."""
        return self.translate or ()


class BackTranslationOptions(ParaphraseOptions, TetheredOptions):
    """Contrastive learning from paraphrases: the two views are a sentence and its back-translation."""


class SelfGuidedBackTranslationOptions(ParaphraseOptions, SelfGuidedOptions):
    """Self-guidance with back-translation: the fixed copy encodes the paraphrase."""


class MLMOptions(MethodOptions):
    """Masked language modelling: further pretraining of a model on the text."""

    masking_rate: Rate = 0.15
    """Share of the tokens that are masked. BERT, section 3.1."""
