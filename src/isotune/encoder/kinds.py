"""The kinds of pretrained models that isotune runs: a record for each model type of transformers.

A type that is not in the table is refused, because a type that looks alike can differ unnoticed.
Each kind is tested against its own padded forward pass and against sentence-transformers
(`tests/encoder/test_backbone.py`, `tests/encoder/test_kinds.py`). Loads no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from isotune.errors import InputError, unknown

Positions = Literal["learned", "after padding", "rotary"]
ROBERTA_HEAD = ("lm_head",)
# A setting, and its value, by which the tokens of a decoder see all others: Gemma's, and that which
# transformers has for any decoder.
BIDIRECTIONAL = ("use_bidirectional_attention", True)
IS_CAUSAL = ("is_causal", False)
# The ways to rotate that change with the longest text of a batch.
CHANGING_ROTATIONS = ("dynamic", "longrope")


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
    causal: bool = False
    """Whether a token sees itself and the tokens before it only."""
    unless: tuple[str, bool] | None = None
    """The setting of config.json that lets the tokens of a causal kind see all others."""
    embeddings: str = "embeddings"
    """The module whose output is the input of the first block."""
    blocks: str = "encoder"
    """The module that holds the transformer blocks."""
    features: str = "hidden_size"
    """The setting of config.json for the features of the last hidden state."""
    language_head: tuple[str, ...] = ("cls",)
    """The layers of the masked-language-model head, in order; none where the type has no head."""
    kept: int = 24
    """Numbers that a block keeps of a token for its gradient, in widths of the model: a fifth more
    than were counted with dropout, in the proportions of the smallest public model."""

    def is_causal(self, config: Mapping[str, Any]) -> bool:
        """Whether a model with this config.json lets a token see only the tokens before it."""
        if self.unless is None:
            return self.causal
        setting, value = self.unless
        return config.get(setting) is not value


ROBERTA = Kind("after padding", language_head=ROBERTA_HEAD)
# RoBERTa's head on blocks with rotary positions.
ROTARY = Kind("rotary", blocks="layers", language_head=ROBERTA_HEAD)
# What was a decoder, or is built as one.
DECODER = Kind("rotary", embeddings="embed_tokens", blocks="layers", language_head=())

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
    "embedding_gemma2_text": replace(DECODER, features="embedding_dim", kept=70),
    "ernie": Kind(),
    "eurobert": replace(ROTARY, embeddings="embed_tokens", kept=32),
    "gemma3_text": replace(DECODER, causal=True, unless=BIDIRECTIONAL, kept=30),
    "gte": replace(ROTARY, kept=36),
    "jina_embeddings_v3": ROTARY,
    "megatron-bert": Kind(packed=False),
    "modernbert": Kind("rotary", blocks="layers", language_head=("head", "decoder")),
    "mpnet": ROBERTA,
    "nomic_bert": Kind("rotary", blocks="layers", kept=32),
    "qwen3": replace(DECODER, causal=True, unless=IS_CAUSAL, kept=40),
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
        raise InputError(f"{architectures[0]}: {error}")
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
    _check_attention(kind, config)
    _check_rotation(config)
    return kind


def _check_attention(kind: Kind, config: Mapping[str, Any]) -> None:
    """Refuses a decoder that is made bidirectional in a way that isn't tested here."""
    if not kind.causal:
        return
    is_causal = config.get("is_causal")
    if is_causal is not None and not isinstance(is_causal, bool):
        # transformers takes 0 for false, and "false" for true.
        raise InputError(f"is_causal {is_causal!r}: it has to be true or false")
    if is_causal is not False:
        return
    if kind.unless != IS_CAUSAL or config.get("use_sliding_window"):
        raise InputError(
            "is_causal false, with a sliding window: such a model is not supported; leave "
            "is_causal out, or take another model"
        )


def _check_rotation(config: Mapping[str, Any]) -> None:
    """Refuses rotary positions by which the vector of a text depends on the texts beside it."""
    for key in ("rope_parameters", "rope_scaling"):
        settings = config.get(key) or {}
        if not isinstance(settings, Mapping):
            raise InputError(f"{key} {settings!r}: it has to be a table of settings")
        # Some models have settings for each type of layer.
        of_layers = [part for part in settings.values() if isinstance(part, Mapping)]
        for part in (settings, *of_layers):
            name = part.get("rope_type", part.get("type"))
            if name in CHANGING_ROTATIONS:
                raise InputError(
                    f"{key} {name}: the positions change with the longest text of a batch, so the "
                    "vector of a text would too; take default or yarn"
                )
