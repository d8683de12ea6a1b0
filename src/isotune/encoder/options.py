"""What can be chosen about an encoder. No torch here: the command line's help reads these fields."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

PoolingMode = Literal["cls", "mean", "max", "weightedmean", "mask", "wk"]


class EncoderOptions(BaseModel):
    """How sentence vectors are taken from the pretrained model; what is unset stays as the model's folder says."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    pooling: PoolingMode | None = None
    """How tokens become one vector: cls, mean, max, weightedmean (later tokens weigh more), mask (the one mask token
    that the prompt brings), or wk (SBERT-WK's weights of layers and tokens). Unset: the model folder's own, or mean
    for a plain language model."""

    layers: Annotated[tuple[int, ...], Field(min_length=1)] | None = None
    """Which hidden states are averaged before pooling, such as -2 -1: 0 is the embeddings, 1 the first block, -1 the
    last. Unset: the model folder's own, or the last; for wk, those from the fourth on."""

    prompt: str | None = None
    """Text put before every sentence, in training and ever after; or around it, with {sentence} where it stands and
    {mask} for the model's mask token: This sentence : " {sentence} " means {mask} . Unset: the model folder's own, or
    none."""


class Scratch(BaseModel):
    """A new BERT with random weights. Its defaults are the bundled model's: the size of BERT-mini, for short input."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    layers: Annotated[int, Field(ge=1)] = 4
    """Transformer blocks."""

    hidden: Annotated[int, Field(ge=1)] = 256
    """Features of a hidden state."""

    heads: Annotated[int, Field(ge=1)] = 4
    """Attention heads; hidden is a multiple of them."""

    intermediate: Annotated[int, Field(ge=1)] = 1024
    """Features inside a block's feed-forward layer."""

    positions: Annotated[int, Field(ge=3)] = 64
    """Tokens of the longest input. No more than max_length in training, or the last positions stay as they started."""

    vocabulary: Annotated[int, Field(ge=6)] = 16_384
    """Uncased WordPieces, made from the training text; BERT's five special tokens are among them."""

    @model_validator(mode="after")
    def _whole_heads(self) -> Scratch:
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is not a multiple of heads {self.heads}")
        return self
