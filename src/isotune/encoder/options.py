"""What can be chosen about an encoder. No torch here: the command line's help reads these fields."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PoolingMode = Literal["cls", "mean", "max", "weightedmean"]


class EncoderOptions(BaseModel):
    """How sentence vectors are taken from the pretrained model; what is unset stays as the model's folder says."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    pooling: PoolingMode | None = None
    """How tokens become one vector: cls, mean, max, or weightedmean (later tokens weigh more). Unset: the model
    folder's own, or mean for a plain language model."""

    layers: Annotated[tuple[int, ...], Field(min_length=1)] | None = None
    """Which hidden states are averaged before pooling, such as -2 -1: 0 is the embeddings, 1 the first block, -1 the
    last. Unset: the model folder's own, or the last."""

    prompt: str | None = None
    """Text put before every sentence, in training and ever after. Unset: the model folder's own, or none."""
