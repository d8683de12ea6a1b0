"""The options of the methods. No torch here: recipes and the command line's help read these models.

The name of a field is its key in a recipe's TOML file, its flag on the command line, and its entry
in the record of a run. Its docstring, or else that of the field in the class above, is the help of
the flag. Defaults are those of the paper's text; if the authors' code differs, the docstring says
so.
"""

import re
from enum import Enum
from typing import Annotated, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from isotune.data.rows import LIST_SEPARATOR
from isotune.views import AUGMENTATIONS

LARGEST = 1_000_000_000
"""The largest count of anything: more steps than any machine makes."""

Rate = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=LARGEST)]


def _augmentation(name: str) -> str:
    """Checks a name of an augmentation, which may have a rate behind it: token_cutoff:0.3."""
    kind, colon, rate = name.partition(":")
    AUGMENTATIONS.check(kind)
    if colon and not re.fullmatch(r"0?\.\d+|0", rate):
        raise ValueError(
            f"{name}: the rate of an augmentation is at least 0 and below 1, such as {kind}:0.2"
        )
    return name


AugmentationName = Annotated[str, AfterValidator(_augmentation)]


class Use(Enum):
    """What the sources or models that a field names are for, in the field's annotation."""

    TRAIN = "train"
    """Sources to train on, in place of the recipe's `data`."""

    SCORE = "score"
    """Labelled sources that the method is scored on, in place of the recipe's dev pairs."""

    TEST = "test"
    """Labelled sources that the kept encoder is scored on, and that choose nothing."""

    LOAD = "load"
    """Models that the method loads beside the encoder, such as translation models."""

    TEACH = "teach"
    """Encoders that the method's encoder learns from. They are loaded too."""


def _one_or_several(names: object) -> object:
    """Makes a list of a single name, which Python's users often write without a list."""
    if isinstance(names, str):
        return [names]
    return names


def _two(names: object) -> object:
    """Refuses a single name."""
    if isinstance(names, str):
        raise ValueError("two names are needed")
    return names


OneOrSeveral = BeforeValidator(_one_or_several)
Names = Annotated[tuple[str, ...], OneOrSeveral]
"""Names, of which a single one needs no list."""
TwoAugmentations = Annotated[tuple[AugmentationName, AugmentationName], BeforeValidator(_two)]

TrainSources = Annotated[Names, Field(min_length=1), Use.TRAIN]
ScoreSources = Annotated[Names, Field(min_length=1), Use.SCORE]


class MethodOptions(BaseModel):
    """Options of a method."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True
    )

    takes_steps: ClassVar[bool] = True
    """Whether weights are trained step by step. A closed form has no batches, no rate and no
    schedule."""

    @property
    def keeps_last(self) -> bool:
        """Whether the last step is kept whatever dev pairs say: a higher score is not the aim."""
        return False

    @classmethod
    def fields_for(cls, *uses: Use) -> list[str]:
        """The names of the fields that name sources or models for one of these uses."""
        names = []
        for name, field in cls.model_fields.items():
            if any(use in field.metadata for use in uses):
                names.append(name)
        return names

    def named(self, use: Use) -> tuple[str, ...]:
        """The sources or models that the options name for this use."""
        names: list[str] = []
        for field in self.fields_for(use):
            names.extend(getattr(self, field) or ())
        return tuple(names)


class AugmentedOptions(MethodOptions):
    """How the two views of a sentence are changed inside the embedding layer."""

    augmentations: TwoAugmentations = ("none", "none")
    """The augmentations of a sentence's two views. A rate may stand behind a name:
    token_cutoff:0.3."""


class SoftTargetOptions(AugmentedOptions):
    """How the two views of a sentence are changed, and what a view looks for."""

    soft_targets: Positive | None = None
    """Soften the targets: a view looks for the views of all sentences of the batch, each with a
    share. The shares are the softmax of the cosines that the encoder had before the stage, divided
    by this temperature. A low one leaves most of the share with the sentence's own view. Unset: a
    view looks for the sentence's other view alone."""


class SimCSEOptions(SoftTargetOptions):
    """SimCSE without labels: the two views of a sentence differ only by the model's dropout."""

    temperature: Positive = 0.05
    """Divides the cosine similarities. 0.05: the authors."""

    projection: bool = True
    """Train through a linear layer with tanh, which is dropped after training, as the authors do on
    the [CLS] vector."""

    keep_projection: bool = False
    """Keep this layer in the encoder. The authors' checkpoints have it, and fine-tuning with heads
    starts from it."""


class ConSERTOptions(SoftTargetOptions):
    """ConSERT without labels: two views by augmentations, compared by NT-Xent."""

    temperature: Positive = 0.1
    """Divides the cosine similarities. ConSERT, section 5.4."""

    augmentations: TwoAugmentations = ("feature_cutoff", "shuffle")
    """The augmentations of a sentence's two views. A rate may stand behind a name:
    token_cutoff:0.3. The default is the best pair of ConSERT's Figure 5."""


class DistilOptions(MethodOptions):
    """Distillation: the encoder learns what similarities frozen teachers find."""

    teachers: Annotated[Names, Use.LOAD, Use.TEACH] = ()
    """The teachers, whose cosines are averaged: folders of encoders, or names on the Hugging Face
    hub. Unset: the encoder as the stage before has left it."""

    match: Literal["similarities", "vectors"] = "similarities"
    """What the encoder learns of the teachers: their similarities between the sentences of a batch,
    or the vectors of one teacher. With vectors the encoder ends in a linear layer, and can search
    in an index that the teacher has made. A map of linear-map, in the stage before, is such a
    layer."""

    temperature: Positive = 0.05
    """Divides the cosine similarities, those of the teachers and those of the encoder. 0.05: as
    SimCSE."""

    @property
    def keeps_last(self) -> bool:
        """With vectors, those of the teacher are the aim."""
        return self.match == "vectors"


class LinearMapOptions(MethodOptions):
    """A linear map from the vectors of the encoder to those of a teacher, by least squares.

    It takes no steps. Then the encoder can search in an index that the teacher has made.
    """

    takes_steps: ClassVar[bool] = False

    teachers: Annotated[Names, Use.LOAD, Use.TEACH] = ()
    """The teacher: a folder of an encoder, or a name on the Hugging Face hub."""

    @property
    def keeps_last(self) -> bool:
        """The teacher's vectors are the aim."""
        return True


class MirrorOptions(AugmentedOptions):
    """MirrorBERT: a sentence is compared with itself with a masked span, both under dropout."""

    temperature: Positive = 0.04
    """Divides the cosine similarities. The authors' scripts: 0.04 for sentences and phrases, 0.2
    for words."""

    spans: Literal["characters", "tokens"] = "characters"
    """What is masked: characters of the text, all by one mask (MirrorBERT), or tokens, each by a
    mask (BERT-CF, section 4.1)."""

    span_length: Annotated[int, Field(ge=0, le=LARGEST)] = 5
    """Characters of a span, or tokens of the longest span. 5: MirrorBERT and BERT-CF. With 0
    nothing is masked, and the method is SimCSE (BERT-CF, section 5.3)."""

    span_rate: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Success probability of the geometric distribution of the length of token spans. BERT-CF,
    section 5.3."""

    symmetric: bool = True
    """Both views are queries, as in MirrorBERT. In BERT-CF's formula only the unmasked view is
    (section 4.1)."""


class SNCSEOptions(AugmentedOptions):
    """SNCSE, without labels: the negation of a sentence is a soft negative.

    It should be a little less similar than a view.
    """

    temperature: Positive = 0.05
    """Divides the cosine similarities of InfoNCE. The authors' code."""

    margin_weight: NotNegative = 1e-3
    """Weight (lambda) of the bidirectional margin loss. 1e-3: the authors for BERT, and the
    small-BERT paper; 5e-4: the authors for RoBERTa."""

    alpha: Annotated[float, Field(ge=0, le=2)] = 0.1
    """Least amount by which the cosine with the negation should be lower than that of the two
    views. The authors' code."""

    beta: Annotated[float, Field(ge=0, le=2)] = 0.3
    """Greatest amount by which the cosine with the negation should be lower. 0.3: the authors'
    code; the small-BERT paper has 2.0."""

    pure_negatives: bool = False
    """Take the negations as hard negatives of InfoNCE instead, which have no margin. The authors
    compare soft negatives with these; so does the small-BERT paper, section 3."""

    prompts: bool = True
    """Train with the authors' prompts, on the vector of their mask token, and leave this prompt and
    pooling in the encoder. With --no-prompts, prompt and pooling stay as they are, as in the
    small-BERT paper."""

    projection: bool = True
    """Train through a linear layer with tanh, which is dropped after training, as the authors
    do."""

    parser: Annotated[str, Field(min_length=1)] = "auto"
    """How the verb to negate is found: words (a list of auxiliaries, which needs nothing), a spaCy
    model by name or folder, or auto (spaCy's en_core_web_sm, which the authors use, if it is
    installed, otherwise words)."""

    @model_validator(mode="after")
    def _ordered_margins(self) -> Self:
        if self.alpha > self.beta:
            raise ValueError(
                f"alpha {self.alpha:g} is above beta {self.beta:g}: no difference would do for both"
            )
        return self


Objective = Literal["base", "opt1", "opt2", "opt3"]


class TetheredOptions(AugmentedOptions):
    """Options shared by the methods of the self-guided paper."""

    temperature: Positive = 0.01
    """Divides the cosine similarities. Self-guided paper, Table 8."""

    projection: bool = True
    """Compare vectors after two layers of 4096 features with GELU, which are dropped after
    training. Self-guided paper, section 3.1; without the layers, its Table 5 loses 1.84 points."""

    regularizer: NotNegative = 0.1
    """Weight (lambda) of the squared distance of all weights from their starting values.
    Self-guided paper, Table 8."""


class SelfGuidedOptions(TetheredOptions):
    """Self-guided contrastive learning: a fixed copy's layers give the views of a sentence."""

    objective: Objective = "opt3"
    """The loss of the self-guided paper, section 3.2: base is SG, opt3 is SG-OPT, opt1 and opt2 are
    the steps between."""

    view_pooling: Literal["max", "mean", "cls"] = "max"
    """How the tokens of a layer of the fixed copy become one vector. max: self-guided paper,
    section 3.1; mean: its SentEval runs, and the authors' code."""

    view_layers: tuple[int, ...] = ()
    """The layers of the fixed copy that are views; 0 is the embeddings. The self-guided paper takes
    all layers, but not the first ones for SentEval (A.3). Unset: all."""

    frozen_dropout: bool = False
    """Keep dropout on in the fixed copy. The authors' code does so by accident; it is not known
    whether the published numbers were made so."""


class ParaphraseOptions(MethodOptions):
    """Where the paraphrases come from."""

    translate: Annotated[tuple[str, str] | None, BeforeValidator(_two), Use.LOAD] = None
    """Make the paraphrases by translating each sentence with the first model and back with the
    second: folders or names on the Hugging Face hub, such as Helsinki-NLP/opus-mt-en-de
    Helsinki-NLP/opus-mt-de-en. Unset: read them; the data are pairs of a sentence and its
    paraphrase."""

    beams: Count = 100
    """Width of the translation's beam search; its time and memory grow with the width. Self-guided
    paper, A.2."""


class BackTranslationOptions(ParaphraseOptions, TetheredOptions):
    """Contrastive learning from paraphrases: the views are a sentence and its back-translation."""


class SelfGuidedBackTranslationOptions(ParaphraseOptions, SelfGuidedOptions):
    """Self-guidance with back-translation: the fixed copy encodes the paraphrase."""


class MLMOptions(MethodOptions):
    """Masked language modelling: further pretraining of a model on the text."""

    masking_rate: Rate = 0.15
    """Share of the tokens that are masked. BERT, section 3.1."""


class NLIOptions(MethodOptions):
    """SBERT-NLI: pairs are classified as contradiction, entailment or neutral."""

    max_square: bool = False
    """Classify from max(u, v)^2 too, besides u, v and |u - v| (ConSERT, equation 2). The published
    numbers did."""


class ConSERTJointOptions(NLIOptions, AugmentedOptions):
    """ConSERT with labels: pairs are classified, and the views of each side are compared."""

    temperature: Positive = 0.1
    """Divides the cosine similarities. ConSERT, section 5.4."""

    augmentations: TwoAugmentations = ("none", "token_cutoff")
    """The augmentations of a sentence's two views; "adversarial" is for this method alone. A rate
    may stand behind a name: token_cutoff:0.3. The first view is the one that is classified. The
    default is that of the authors' script; the text names no pair."""

    alpha: NotNegative = 0.15
    """Weight of the contrastive loss. ConSERT, section 4.1. NT-Xent in the authors' code is twice
    that of the text, so their 0.15 is 0.3 here."""

    adversarial_norm: Positive = 1.0
    """Length of the noise that adversarial adds to each token. The authors' code; the text names
    none."""


class SimCSESupervisedOptions(MethodOptions):
    """SimCSE with labels: the negatives of a premise are all other hypotheses.

    The contradicted ones are among them.
    """

    temperature: Positive = 0.05
    """Divides the cosine similarities. 0.05: the authors."""

    projection: bool = True
    """Add a linear layer with tanh to the encoder and keep it, as the authors do on the [CLS]
    vector."""


class CropsOptions(MethodOptions):
    """Two passages of a text, by NT-Xent."""

    temperature: Positive = 0.05
    """Divides the cosine similarities. 0.05: as for pairs."""


class ApartOptions(MethodOptions):
    """The options of methods whose rows can be divided into those to train on and to judge by."""

    test_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the rows that is set apart: not trained on, but start and result are compared on
    them. Rows with a common text stay together. Pairs: first texts search among all second texts of
    the data. Scored pairs: correlations. Labels: the accuracy of a classifier on the vectors.
    Unset: no row is set apart."""


class PairsOptions(ApartOptions):
    """Two texts that belong together, such as a title and its body, by InfoNCE."""

    temperature: Positive = 0.05
    """Divides the cosine similarities. 0.05: sentence-transformers' loss for pairs, with which
    all-MiniLM was made."""

    negatives: bool = False
    """Rows have a third text, a hard negative."""


class CLSROptions(MethodOptions):
    """CLSR: layers on a frozen sentence encoder, trained by NT-Xent on pairs with one meaning."""

    temperature: Positive = 0.1
    """Divides the cosine similarities. CLSR, section 4.1."""

    width: Count = 768
    """Features of the hidden layer, of the sentence vector and of the projection. CLSR, section
    4.1."""


class CoSENTOptions(ApartOptions):
    """CoSENT: of two pairs of a batch, the one with the higher score has the higher cosine."""

    scale: Positive = 20.0
    """Multiplies the cosines. The authors' code, and sentence-transformers' CoSENTLoss."""


MetricName = Literal["accuracy", "f1", "macro_f1", "matthews", "pearson", "spearman"]
OF_CLASSES = ("accuracy", "f1", "macro_f1", "matthews")
"""The metrics of classes. The others are of scores."""


def _different(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses classes of which two have one label."""
    for label in classes:
        if classes.count(label) > 1:
            raise ValueError(f"{label} stands there twice; give each label once")
    return classes


Classes = Annotated[Names, AfterValidator(_different)]


ClassWeights = Literal["balanced"]


class LabelOptions(MethodOptions):
    """The options of methods that learn from the user's labels.

    The run sets rows apart and says what the labels of these rows are predicted by.
    """

    classes: Classes = ()
    """The labels, in the order of their numbers. Unset: those of the data, sorted."""

    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the rows of each label that is set apart: not trained on, but scored. Copies of a
    text stay together."""

    test_data: Annotated[Names, Use.TEST] = ()
    """Rows with labels to score on, in place of rows that are set apart, with the same columns."""


class ClassifierOptions(LabelOptions):
    """Logistic regression on the encoder's vectors: labels are predicted, in seconds.

    The encoder stays as it is. The method takes no steps.
    """

    takes_steps: ClassVar[bool] = False

    kind: Literal["single", "multi", "score"] = "single"
    """What is predicted: single, one label a text; multi, any number of labels; score, a number."""

    separator: str = ""
    """What stands between the labels of a text in a cell, for kind multi, such as ";". Lists of
    labels, as JSON has them, need none."""

    class_weights: ClassWeights | None = None
    """balanced: every class counts as much as the others, however rare it is (scikit-learn's
    formula). Unset: every row counts the same."""

    @property
    def balanced(self) -> bool:
        """Whether all classes count the same."""
        return self.class_weights == "balanced"

    def labels_of(self, label: str) -> list[str]:
        """The labels of a row, by the text in the column of its label."""
        if self.kind != "multi":
            return [label]
        parts = [label]
        for separator in (LIST_SEPARATOR, self.separator):
            if separator:
                parts = [piece for part in parts for piece in part.split(separator)]
        return [part.strip() for part in parts if part.strip()]

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if self.kind != "multi" and self.separator:
            raise ValueError(f"separator: kind {self.kind} has one label a text; give kind multi")
        if self.kind == "score" and (self.classes or self.class_weights):
            raise ValueError("kind score: numbers have no classes; leave out their options")
        return self


class SupConOptions(LabelOptions):
    """SupCon: texts with the same label find each other among all texts of the batch."""

    temperature: Positive = 0.1
    """Divides the cosine similarities. 0.1: Khosla et al., section 4.4."""


class FinetuneOptions(ApartOptions):
    """The options of fine-tuning on sentences and on pairs."""

    class_weights: ClassWeights | None = None
    """balanced: every class counts as much as the others in the loss, however rare it is
    (scikit-learn's formula). Unset: every row counts the same."""

    metrics: Annotated[tuple[MetricName, ...], OneOrSeveral, Field(min_length=1)] = ("accuracy",)
    """The metrics on the dev data: accuracy, f1, macro_f1, matthews, pearson or spearman. Their
    mean chooses the best step."""

    dropout: Rate = 0.1
    """Rate of the dropout before the output layer. 0.1: BERT."""

    heads: bool = False
    """Pass the [CLS] vector through the encoder's heads before the dropout. With pooling = "pooler"
    the head is BERT's own pooler, as in BERT's code."""

    dev_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the dev data, from the first row on, that chooses the best step. The other rows then
    score that step. 1: no row is left for that. The self-guided paper has 0.1 (A.4)."""


F = TypeVar("F", bound="FinetuneSentenceOptions | FinetunePairOptions")


def _check_metrics(options: F) -> F:
    """Refuses metrics that are not defined for the number of classes."""
    count = len(options.classes)
    if not count and options.class_weights:
        raise ValueError("class_weights: there are no classes; leave the option out")
    if count == 1:
        raise ValueError("classes: there is one; give two or more, or none to predict scores")
    for metric in options.metrics:
        if count == 0 and metric in OF_CLASSES:
            raise ValueError(f"metrics: {metric} is of classes, and there are none; give spearman")
        if count > 2 and metric == "f1":
            raise ValueError(f"metrics: f1 is of two classes, and there are {count}; give accuracy")
    return options


class FinetuneSentenceOptions(FinetuneOptions):
    """GLUE-style fine-tuning on sentences: a class from the [CLS] vector."""

    classes: Annotated[Classes, Field(min_length=2)] = ("0", "1")
    """The labels of the classes. f1 is that of the second class. The default is SST-2's."""

    dev_data: Annotated[Names, Use.SCORE] = ()
    """Labelled sentences on which the metrics are computed. Unset: the share that test_share names
    of the rows left to train on; without test_share, a run needs some."""

    _checked = model_validator(mode="after")(_check_metrics)


class FinetunePairOptions(FinetuneOptions):
    """GLUE-style fine-tuning on pairs: a class or a score from the [CLS] vector of both texts."""

    classes: Classes = ("entailment", "not_entailment")
    """The labels of the classes; with none, the method predicts the scores of scored pairs. f1 is
    that of the second class. The default is RTE's and QNLI's."""

    dev_data: Annotated[Names, Use.SCORE] = ()
    """Labelled or scored pairs on which the metrics are computed. Unset: the share that test_share
    names of the rows left to train on; without test_share, a run needs some."""

    _checked = model_validator(mode="after")(_check_metrics)


Hinge = Annotated[float, Field(ge=-1, lt=1)]


class MultitaskOptions(MethodOptions):
    """BERT-CF's fine-tuning: sentiment, paraphrase and similarity in every update."""

    sentiment_data: TrainSources = ("sst5:train",)
    """Sentences with a label, to train on. BERT-CF, section 5.1."""

    paraphrase_data: TrainSources = ("minbert-quora:train",)
    """Pairs with the label 1 (paraphrases) or 0, to train on. BERT-CF, section 5.1."""

    similarity_data: TrainSources = ("minbert-sts:train",)
    """Pairs with a score from 0 to 5, to train on. This is the split of STS-B in the files of the
    CS224N project; BERT-CF calls it "STS-13"."""

    sentiment_dev: ScoreSources = ("sst5:dev",)
    """Sentences with a label, for the accuracy."""

    paraphrase_dev: ScoreSources = ("minbert-quora:dev",)
    """Pairs with the label 1 or 0, for the accuracy."""

    similarity_dev: ScoreSources = ("minbert-sts:dev",)
    """Pairs with a score, for Pearson's correlation. The mean of the three metrics chooses the best
    step."""

    sentiment_test: Annotated[Names, Use.SCORE] = ()
    """Sentences with a label, for the accuracy of the kept step. Unset: it isn't measured, and so
    for the next two."""

    paraphrase_test: Annotated[Names, Use.SCORE] = ()
    """Pairs with the label 1 or 0, for the accuracy of the kept step."""

    similarity_test: Annotated[Names, Use.SCORE] = ()
    """Pairs with a score, for Pearson's correlation of the kept step."""

    sentiment_classes: Annotated[Classes, Field(min_length=2)] = ("0", "1", "2", "3", "4")
    """The labels of the sentences. The default is SST-5's."""

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
    """Lower cosines count as this much. Pairs above the middle between it and 1 are called
    paraphrases. BERT-CF, section 5.3."""

    similarity_hinge: Hinge = 0.0
    """Lower cosines count as this much, which stands for the lowest score. BERT-CF, section 5.3."""

    sentiment_dropout: Rate = 0.3
    """Rate of the dropout before the sentiment layer. BERT-CF, section 5.3."""

    similarity_dropout: Rate = 0.1
    """Rate of the dropout before the similarity layer. BERT-CF, section 5.3."""


class WhiteningOptions(MethodOptions):
    """Whitening: a linear map after which the vectors of the training text have covariance 1.

    It takes no steps.
    """

    takes_steps: ClassVar[bool] = False

    dimensions: Count | None = None
    """Features to keep, those of the largest variance. The paper keeps 256 of 768. Unset: all."""


class PCAOptions(WhiteningOptions):
    """PCA: a linear map after which the first features are the leading directions of the text.

    It takes no steps.
    """

    dimensions: Count | None = None
    """Directions to keep, the leading ones. Unset: all; then isotune encode, index, serve and
    evaluate can keep fewer."""

    @property
    def keeps_last(self) -> bool:
        """A cut loses a little of the score, which is its price."""
        return True


class SIFOptions(MethodOptions):
    """SIF: rare tokens weigh more in the mean, and a direction that all share is removed.

    It takes no steps.
    """

    takes_steps: ClassVar[bool] = False

    smoothing: Positive = 1e-3
    """The weight of a token is a / (a + p), where p is the token's share of the text; this is a. A
    smaller a lowers the weight of frequent tokens. 1e-3: the paper, which has good results from
    1e-4 to 1e-3."""


class FlowShape(MethodOptions):
    """How a flow is built."""

    mixing: Literal["reversal", "lu"] = "reversal"
    """What a step does between its ActNorm and its coupling: reversal reverses the features
    (BERT-flow's code); lu multiplies them by a learned matrix, an invertible 1x1 convolution in LU
    form (BERT-CF, section 4.2)."""

    levels: Count = 3
    """Levels of the flow. After each level but the last, half of the features is finished.
    BERT-flow's code; BERT-CF has one level."""

    depth: Count = 3
    """Steps of a level. BERT-flow's code; BERT-CF, section 5.3."""

    width: Count = 32
    """Features of the hidden layers in the couplings. BERT-flow's code."""


class FlowOptions(FlowShape):
    """BERT-flow: a normalising flow on a frozen encoder, trained by the vectors' likelihood."""

    cached: bool = True
    """Compute the encoder's vectors once, without dropout; BERT-flow leaves BERT unchanged. With
    --no-cached they are computed in every step, under dropout. The authors' code does that, and so
    do the published scores."""


class BERTCFOptions(FlowShape, MirrorOptions):
    """BERT-CF's second stage: a flow, trained by its likelihood and by a contrastive loss."""

    mixing: Literal["reversal", "lu"] = "lu"
    levels: Count = 1
    spans: Literal["characters", "tokens"] = "tokens"
    symmetric: bool = False

    contrastive_weight: Positive = 0.3
    """Weight of the contrastive loss, lambda_mirror; the likelihood, in bits for each feature, has
    weight 1. BERT-CF, section 5.3. For no contrastive loss, use the method flow."""

    train_encoder: bool = False
    """Train the encoder too, by the contrastive loss alone; the likelihood trains only the flow.
    BERT-CF's ablation "joint", section 6.1."""
