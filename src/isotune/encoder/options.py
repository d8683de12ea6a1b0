"""The options of an encoder.

This module imports no torch, because the command line's help reads its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from isotune.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

P = TypeVar("P", bound="Callable[..., Tensor]")

# Other places may need to know a new pooling, too: "Add a pooling" in docs/adding.md.
POOLINGS: Registry[Callable[..., Tensor]] = Registry(
    "pooling",
    {
        "cls": "encoder.pooling:first_tokens",
        "mean": "encoder.pooling:mean",
        "lasttoken": "encoder.pooling:last_tokens",
        "max": "encoder.pooling:maximum",
        "weightedmean": "encoder.pooling:mean_by_position",
        "mask": "encoder.pooling:mask_tokens",
        "wk": "encoder.pooling:wk",
        "wk-released": "encoder.pooling:wk",
        # `Encoder.load` makes the model's own pooler a head.
        "pooler": "encoder.pooling:first_tokens",
    },
)
"""The poolings by name: each makes vectors [N, d] of the `HiddenStates` of N sentences."""


def pooling(name: str) -> Callable[[P], P]:
    """A decorator that registers a pooling: a function from `HiddenStates` to vectors [N, d]."""
    return POOLINGS.adding(name)


class EncoderOptions(BaseModel):
    """How sentence vectors are made from the pretrained model.

    Unset options are taken from the model's folder.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True
    )

    pooling: Annotated[str, AfterValidator(POOLINGS.check)] | None = None
    """How the vectors of tokens become one vector. lasttoken takes that of the last token, which
    sees all others in a decoder; weightedmean lets later tokens weigh more; mask takes the vector
    of the prompt's mask token; wk has SBERT-WK's weights of layers and tokens, wk-released those of
    the authors' code; pooler passes the vector of [CLS] through the model's own pooler, a linear
    layer and tanh, which becomes a head. A pooling that is given weighs all tokens equally. Unset:
    as the model's folder says; for a language model mean, or lasttoken if its tokens see only those
    before them."""

    layers: Annotated[tuple[int, ...], Field(min_length=1)] | None = None
    """The layers to average before pooling, such as -2 -1: 0 is the embeddings, 1 the first block,
    -1 the last block. Unset: as the model's folder says, or the last block; for wk and wk-released,
    the fourth block and all after it."""

    prompt: str | None = None
    """Text put before every sentence, in training and in use. To put text around the sentence,
    write {sentence} for the sentence and {mask} for the model's mask token: This sentence : "
    {sentence} " means {mask} . Unset: as the model's folder says, or no text."""
