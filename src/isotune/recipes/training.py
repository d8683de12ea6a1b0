"""How long, how fast and how carefully a stage trains. No torch here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from isotune.methods.options.base import Rate

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class TrainingOptions(BaseModel):
    """How long, how fast and how carefully a stage trains."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    batch_size: Annotated[int, Field(ge=2)] = 64
    """Rows in a step; to a contrastive loss, each is the negative of all others."""

    chunk_size: Count | None = None
    """Rows that are encoded at a time, so that memory doesn't grow with batch_size; takes about a third more time.
    Unset: all at once."""

    epochs: Positive | None = None
    """Passes over the data. Unset: 1, or as many as steps takes."""

    steps: Count | None = None
    """Updates, whatever the size of the data."""

    max_length: Annotated[int, Field(ge=3)] = 64
    """Sentences are cut to this many tokens while training, special ones included."""

    learning_rate: Positive = 3e-5
    """The peak of the schedule. 3e-5 is SimCSE's for BERT-base; small models want more."""

    schedule: Literal["linear", "cosine", "constant", "wsd"] = "linear"
    """How the learning rate falls after warm-up; wsd (warm-up, stable, decay) stays at its peak and falls linearly at
    the end."""

    cooldown: Share = 0.4
    """Share of the steps over which a wsd schedule falls."""

    warmup: Share = 0.1
    """Share of the steps over which the learning rate rises from 0."""

    optimizer: Literal["adamw", "sgd", "muon"] = "adamw"
    """Muon is for the matrices of the transformer blocks; all else is AdamW's then."""

    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """On all weights but biases and normalisation."""

    betas: tuple[Rate, Rate] = (0.9, 0.999)
    """AdamW's: how slowly its averages of the gradient and of its square change. The first one is sgd's momentum."""

    epsilon: Positive = 1e-6
    """AdamW's: keeps it from dividing by 0."""

    bias_correction: bool = True
    """AdamW's: whether its averages, which start at 0, are divided by the weight they have gathered by then (Kingma and
    Ba 2015, section 3). Without it the steps are about three times as long at first, and for a thousand steps or so
    they stay longer. BERT's own optimiser is without, and so are the released runs of ConSERT and BERT-flow."""

    muon_learning_rate: Positive = 0.02
    """Muon's peak, beside learning_rate for the rest. 0.02 is its author's."""

    max_gradient_norm: Positive = 1.0
    """Gradients longer than this are scaled down to it; inf leaves them all."""

    model_dropout: Rate | None = None
    """Rate of the model's own dropout layers while training. Unset: as the model was made."""

    head_dropout: Rate = 0.0
    """Rate at which whole attention heads of a sentence are dropped while training (DropHead)."""

    mlm_weight: Annotated[float, Field(ge=0)] = 0.0
    """Weight of masked language modelling beside the method's own loss; 0 leaves it out. The small-BERT paper's sum is
    1, section 5.3."""

    mlm_rate: Rate = 0.15
    """Share of the tokens that are masked for it. BERT, section 3.1."""

    precision: Literal["float32", "bfloat16"] = "float32"
    """What the forward pass computes in; weights and optimiser stay float32."""

    eval_every: Count = 50
    """Steps between evaluations on the dev pairs, each followed by a checkpoint."""

    metric: Literal["spearman", "pearson"] = "spearman"
    """Which correlation on the dev pairs chooses the encoder that is kept."""

    patience: Count | None = None
    """Stop after this many evaluations in a row without a new best. Unset: never."""

    early_stopping: Literal["best", "previous"] = "best"
    """What patience counts: evaluations in a row without a new best, or all those below the one before it (the
    self-guided paper's code)."""

    sample: Annotated[int, Field(ge=2)] | None = None
    """Train on this many rows, drawn by the seed; of each kind, where there are several. Unset: all."""

    min_words: Count | None = None
    """Rows with a text of fewer words are left out. Unset: none are."""

    min_score: float | None = None
    """Where pairs are made of scored ones: those with at least this score. Unset: the source must hold plain pairs."""

    @model_validator(mode="after")
    def _one_length(self) -> TrainingOptions:
        if self.epochs is not None and self.steps is not None:
            raise ValueError("epochs and steps are both given; give one of them")
        return self

    def total_steps(self, steps_per_epoch: int) -> int:
        """Updates of the whole stage."""
        return self.steps or max(1, round((self.epochs or 1.0) * steps_per_epoch))
