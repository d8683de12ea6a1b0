"""The options of an encoder. This module imports no torch, because the command line's help reads its fields."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

PoolingMode = Literal["cls", "mean", "max", "weightedmean", "mask", "wk"]
PoolingChoice = Literal[PoolingMode, "pooler"]  # the pooler is pooling cls and a head


class EncoderOptions(BaseModel):
    """How sentence vectors are made from the pretrained model. Unset options are taken from the model's folder."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    pooling: PoolingChoice | None = None
    """How the vectors of tokens become one vector: cls, mean, max, weightedmean (later tokens weigh more), mask (the
    vector of the prompt's mask token), wk (SBERT-WK's weights of layers and tokens), or pooler (the vector of [CLS]
    through the model's own pooler, a linear layer and tanh, which becomes a head). A pooling that is given weighs all
    tokens equally. Unset: as the model's folder says; mean for a plain language model."""

    layers: Annotated[tuple[int, ...], Field(min_length=1)] | None = None
    """The layers to average before pooling, such as -2 -1: 0 is the embeddings, 1 the first block, -1 the last block.
    Unset: as the model's folder says, or the last block; for wk, the fourth block and all after it."""

    prompt: str | None = None
    """Text put before every sentence, in training and in use. To put text around the sentence, write {sentence} for
    the sentence and {mask} for the model's mask token: This sentence : " {sentence} " means {mask} . Unset: as the
    model's folder says, or no text."""


class Scratch(BaseModel):
    """A new BERT with random weights. The defaults are those of the bundled model: BERT-mini's size, for short text."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    layers: Annotated[int, Field(ge=1)] = 4
    """Transformer blocks."""

    hidden: Annotated[int, Field(ge=1)] = 256
    """Features of a hidden state."""

    heads: Annotated[int, Field(ge=1)] = 4
    """Attention heads; hidden has to be a multiple of this number."""

    intermediate: Annotated[int, Field(ge=1)] = 1024
    """Features between the two feed-forward layers of a block."""

    positions: Annotated[int, Field(ge=3)] = 64
    """Tokens of the longest input. Positions beyond training's max_length are never trained."""

    vocabulary: Annotated[int, Field(ge=6)] = 16_384
    """Uncased WordPieces, made from the training text, including BERT's five special tokens."""

    @model_validator(mode="after")
    def _whole_heads(self) -> Scratch:
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is not a multiple of heads {self.heads}")
        return self
