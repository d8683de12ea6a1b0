"""The kinds of pretrained models that isotune runs: a record for each model type of transformers.

A type that is not in the table is refused, because a type that looks alike can differ unnoticed.
Each kind is tested against its own padded forward pass (`tests/encoder/test_backbone.py`). Loads no
torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from isotune.errors import InputError, unknown

Positions = Literal["learned", "after padding", "rotary"]
ROBERTA_HEAD = ("lm_head",)


@dataclass(frozen=True)
class Kind:
    """How the models of one type run, and what transformers calls their parts."""

    positions: Positions = "learned"
    """How positions count. "learned": from 0, and each has an embedding, or a bias. "after
    padding": an embedding too, but numbers begin behind the id of the padding token, and a padding
    token that is written in a text isn't counted. "rotary": from 0, without embeddings, so that a
    text may be longer than any in training."""
    packed: bool = True
    """Whether the model runs on packed sentences. Otherwise its attention can't be replaced, and it
    runs on padded batches, which is slower and gives the same numbers."""
    embeddings: str = "embeddings"
    """The module whose output is the input of the first block."""
    blocks: str = "encoder"
    """The module that holds the transformer blocks."""
    language_head: tuple[str, ...] = ("cls",)
    """The layers of the masked-language-model head, in order; none where the type has no head."""


ROBERTA = Kind("after padding", language_head=ROBERTA_HEAD)

KINDS: Mapping[str, Kind] = {
    "albert": Kind(language_head=("predictions",)),
    "bert": Kind(),
    "camembert": ROBERTA,
    "data2vec-text": ROBERTA,
    "deberta": Kind(packed=False),
    "deberta-v2": Kind(packed=False),
    "distilbert": Kind(
        blocks="transformer",
        language_head=("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),
    ),
    "electra": Kind(language_head=("generator_predictions", "generator_lm_head")),
    "ernie": Kind(),
    "megatron-bert": Kind(packed=False),
    "modernbert": Kind("rotary", blocks="layers", language_head=("head", "decoder")),
    "mpnet": ROBERTA,
    "rembert": Kind(packed=False),
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "xlm-roberta-xl": ROBERTA,
}
"""The kinds by the model type in config.json."""


def kind_of(config: Mapping[str, Any]) -> Kind:
    """The kind of the model that a config.json describes.

    Raises:
        InputError: isotune can't run such a model as it is meant.
    """
    model_type = config.get("model_type")
    kind = KINDS.get(str(model_type))
    if kind is None:
        architectures = config.get("architectures") or ["no architecture"]
        error = unknown("model type", str(model_type), KINDS)
        raise InputError(f"{error} ({architectures[0]})")
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise InputError(
            "the model is set up as a decoder (is_decoder), whose tokens don't see what follows "
            "them"
        )
    positions = config.get("position_embedding_type")
    if positions not in (None, "absolute"):
        raise InputError(
            f"position_embedding_type {positions!r}: transformers gives such models absolute "
            "positions"
        )
    return kind
