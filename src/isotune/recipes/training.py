"""Training options: how long, how fast and how carefully a stage trains. No torch here."""

import math
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from isotune.methods.options import LARGEST, Count, NotNegative, Positive, Rate

Share = Annotated[float, Field(gt=0, le=1)]


def _different(shares: tuple[float, ...]) -> tuple[float, ...]:
    """Refuses shares of which two are equal."""
    for share in shares:
        if shares.count(share) > 1:
            raise ValueError(f"{share:g} stands there twice; give each share once")
    return shares


Shares = Annotated[tuple[Share, ...], Field(min_length=1), AfterValidator(_different)]


def _descending(widths: tuple[int, ...]) -> tuple[int, ...]:
    """Refuses numbers of features that don't become smaller, or of which two are equal."""
    if list(widths) != sorted(set(widths), reverse=True):
        raise ValueError("give each number of features once, the largest first, as in 384 128 64")
    return widths


Widths = Annotated[tuple[Count, ...], Field(min_length=1), AfterValidator(_descending)]

WITHOUT_STEPS = ("max_length", "precision", "sample", "min_words", "min_score", "positive")
"""The options of a stage whose method takes no steps."""


def _warmup(value: float | str) -> float | str:
    if isinstance(value, str):
        is_right = re.fullmatch(r"\d+ (steps?|epochs?)", value) is not None
    else:
        is_right = 0 <= value <= 1
    if not is_right:
        raise ValueError(
            "give a share of the steps from 0 to 1, or a number as '100 steps' or '10 epochs'"
        )
    return value


class AsReleased(BaseModel):
    """What single papers and their released scripts need.

    It is a stage's table `as_released`, which has no flags.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True
    )

    early_stopping: Literal["best", "previous"] = "best"
    """The evaluations that patience counts: best counts those in a row without a new best score;
    previous counts all that score lower than the evaluation before them. The first one after the
    start is never counted (the self-guided paper's code)."""

    whole_epochs: bool = False
    """Treat epochs as the loop of sentence-transformers does, which ConSERT's code has: rows that
    don't fill a last batch make a smaller one, eval_every counts within an epoch, an epoch's end is
    evaluated too, and the start is not among the steps to choose from. Else those rows are left
    out, eval_every counts all steps, and the start counts."""

    upsample: bool = False
    """Repeat the sample until it is as large as the data was (ConSERT's code, --do_upsampling, for
    its Figure 6). A batch then has copies of a row, as negatives of each other."""

    optimizer: Literal["adamw", "sgd"] = "adamw"
    """The optimiser. CLSR follows SimCLR, which has sgd with momentum."""

    dev_layers: Annotated[tuple[int, ...], Field(min_length=1)] | None = None
    """The layers that are averaged where the dev pairs choose the step, such as -1. Unset: the
    layers of the encoder. ConSERT's code has the last layer, on which it trains."""

    bias_correction: bool = True
    """Correct the bias of AdamW's averages, which start at 0 (Kingma and Ba 2015, section 3).
    Without it the first steps are about three times as long, and steps stay longer for about a
    thousand steps. BERT's own optimiser has none, nor have the released runs of ConSERT and
    BERT-flow."""


class TrainingOptions(BaseModel):
    """How long, how fast and how carefully a stage trains."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True
    )

    batch_size: Annotated[Count, Field(ge=2)] = 64
    """Rows in a step. A contrastive loss takes the other rows of the step as negatives. 64: SimCSE,
    BERT-base."""

    chunk_size: Count | None = None
    """Rows that are encoded at a time. It bounds the memory of a large batch and takes up to half
    more time. Unset: the whole batch, or on a CPU as many rows as the free memory takes."""

    epochs: Annotated[Positive, Field(le=LARGEST)] | None = None
    """Passes over the data. Unset: 1, or as many as steps takes."""

    steps: Count | None = None
    """Updates of the weights, in place of epochs."""

    max_length: Annotated[Count, Field(ge=3)] = 64
    """Tokens to which sentences are cut in training, special tokens included. 64: ConSERT, section
    4.1."""

    learning_rate: Positive = 3e-5
    """The highest learning rate of the schedule. 3e-5: SimCSE, BERT-base; small models need
    more."""

    rate_width: Count | None = None
    """The width, in features of a hidden state, that learning_rate is meant for. A model of another
    width is trained with learning_rate x rate_width / width (Yang et al. 2022, Tensor Programs V,
    table 3). A learning rate that is given is meant for the model as it is. Unset: learning_rate
    suits any width."""

    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """How the learning rate falls after the warm-up."""

    warmup: Annotated[float | str, AfterValidator(_warmup)] = 0.1
    """How long the learning rate rises from 0: a share of the steps, or a number as "100 steps" or
    "10 epochs". 0.1: ConSERT, section 4.1."""

    weight_decay: NotNegative = 0.01
    """Weight decay of all weights except biases and normalisation. 0.01: BERT, ConSERT's code."""

    betas: tuple[Rate, Rate] = (0.9, 0.999)
    """Decay rates of AdamW's averages of the gradient and of its square. The first is also the
    momentum of sgd. The values are those of Adam's paper."""

    epsilon: Positive = 1e-6
    """Added to AdamW's denominator. 1e-6: BERT, ConSERT's code."""

    max_gradient_norm: Annotated[float, Field(gt=0)] = 1.0
    """Longer gradients are scaled down to this norm; with inf, none is. 1.0: BERT, ConSERT's
    code."""

    model_dropout: Rate | None = None
    """Rate of the model's own dropout layers in training. Unset: the rate in the model's
    configuration."""

    attention_dropout: Rate | None = None
    """Rate of the dropout of attention weights in training. With 0, a GPU in bfloat16 is faster: it
    can use flash attention. Models that run padded (DeBERTa) keep their own rate. Unset: as
    model_dropout."""

    frozen_blocks: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """Do not train the embeddings and this many of the lowest transformer blocks. A step takes less
    time then."""

    matryoshka: Widths | None = None
    """Compute the method's loss of the first features of the vectors too, for each of these
    numbers, largest first, such as 384 128 64 for vectors with 384 features; the losses are added
    (Kusupati et al. 2022, equation 1, with weights 1). Vectors that are cut to one of these numbers
    then lose less. Unset: the loss is of all features."""

    mlm_weight: NotNegative = 0.0
    """Weight of masked language modelling beside the method's loss; with 0 there is none. 15 % of
    the tokens are masked (BERT, section 3.1). The small-BERT paper has the weight 1 (section
    5.3)."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number type of the forward pass; auto takes bfloat16 if this machine multiplies faster in it,
    else float32. Weights and optimiser are always float32."""

    eval_every: Count = 50
    """Steps between two evaluations on the dev pairs. A checkpoint follows, unless checkpoints
    would take more than a twentieth of the time. 50: the self-guided paper's code."""

    patience: Count | None = None
    """The stage ends after this many evaluations in a row without a new best score. Unset: it runs
    to its last step."""

    most_forgotten: NotNegative | None = None
    """The most that the encoder may lose on general pairs (stsb-open:dev, Spearman x 100). A
    greater loss ends the stage, and its step doesn't count. Without dev pairs the step of the last
    evaluation before that loss is kept. Unset: general pairs are not looked at."""

    interpolations: Shares | None = None
    """Shares of the way from the stage's start to its end, such as 0.5 0.25 1. The weights at each
    share are a candidate when the stage is over (WiSE-FT, Wortsman et al. 2022), beside the start
    and the best step. Dev pairs choose among them as confidence says. Without dev pairs the first
    share is kept, or a smaller one where the first loses more than most_forgotten. Unset: a step is
    kept."""

    confidence: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """How sure dev pairs have to be where there are interpolations: of the candidates that the best
    one does not beat by more than the interval of this confidence, the one nearest to the start is
    kept. 0: the best score."""

    sample: Count | None = None
    """Train on this many rows, drawn at random with the seed; for a method with several tasks, on
    this many of each. Unset: all rows; sif and whitening take at most 100,000."""

    min_words: Count | None = None
    """Leave out rows with a text of fewer words. Unset: none is left out."""

    min_score: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """Keep scored pairs with at least this score, as pairs. Unset: the data must hold pairs."""

    positive: str | None = None
    """The label of labelled pairs that mean the same, which are kept as pairs. Unset: entailment,
    or what isotune knows of a named dataset."""

    as_released: AsReleased = AsReleased()
    """What a released script does differently."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("epochs and steps are both given; give one of them")
        return self

    def for_width(self, width: int) -> Self:
        """These options with the learning rate for a model of this width."""
        if self.rate_width is None:
            return self
        rate = self.learning_rate * self.rate_width / width
        return self.model_copy(update={"learning_rate": rate, "rate_width": None})

    def warmup_steps(self, total: int, steps_per_epoch: int) -> int:
        """The number of steps, of the `total`, in which the learning rate rises."""
        if not isinstance(self.warmup, str):
            return math.ceil(self.warmup * total)
        count, unit = self.warmup.split()
        steps = int(count)
        if unit.startswith("epoch"):
            steps *= steps_per_epoch
        return min(total, steps)

    def total_steps(self, steps_per_epoch: int) -> int:
        """The number of steps of the stage."""
        return self.steps or max(1, round((self.epochs or 1.0) * steps_per_epoch))

    def evaluates_after(self, step: int, steps_per_epoch: int) -> bool:
        """Whether an evaluation follows a step. Whole epochs count their steps anew."""
        if self.as_released.whole_epochs:
            step %= steps_per_epoch
        return step % self.eval_every == 0
