"""A pretrained transformers model, run on packed sentences.

The model is transformers' own class, unchanged. Packed sentences enter it as a batch of one row [1, T], with explicit
position ids and `attention.packed_attention` between the tokens; augmentations act on the position ids before, and on
the output of the embedding layer by a forward hook. A model whose attention can't be replaced (MPNet, DeBERTa) runs
padded and gives the same numbers. Only the types in the two tables below are run: each is tested against its padded
self, and a type that looks alike can differ in ways that nothing would show (an embedding layer that joins
neighbouring tokens, positions that start elsewhere).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Generator, Tensor, nn
from transformers import PreTrainedModel

from isotune.data.packed import Packed
from isotune.errors import InputError, unknown
from isotune.kernels.attention import PACKED
from isotune.kernels.dropout import replace_dropout
from isotune.kernels.float32 import fast_float32
from isotune.views.augmentation import Augmentation, NoAugmentation

logger = logging.getLogger(__name__)

# Model types of transformers that run packed, and those that run padded.
PACKED_TYPES = (
    *("albert", "bert", "camembert", "data2vec-text", "distilbert", "electra", "ernie", "modernbert", "roberta"),
    *("xlm-roberta", "xlm-roberta-xl"),
)
PADDED_TYPES = ("deberta", "deberta-v2", "megatron-bert", "mpnet", "rembert")


class Backbone(nn.Module):
    """Token ids in, hidden states of every layer out, packed on both sides."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Takes a base model (no task head) and switches its attention to the packed one where that is possible.

        Raises:
            InputError: the model is of a type that is not known here, or attends only to what came before.
        """
        super().__init__()
        kind = model.config.model_type
        if kind not in PACKED_TYPES + PADDED_TYPES:
            raise unknown("model type", str(kind), PACKED_TYPES + PADDED_TYPES)
        if getattr(model.config, "is_decoder", False):
            raise InputError("the model is set up as a decoder (is_decoder), whose tokens don't see what follows them")
        replace_dropout(model)
        self.model = model
        self.head_dropout = 0.0
        self.padded = kind in PADDED_TYPES
        if self.padded:
            _say_padded(kind)
        else:
            model.set_attn_implementation(PACKED)
        embeddings: nn.Module = model.get_submodule("embeddings")
        # RoBERTa and its kin count positions from padding_idx + 1; only their embedding layers have the attribute.
        self.first_position: int = getattr(embeddings, "padding_idx", -1) + 1

    @property
    def dimension(self) -> int:
        """Features of a hidden state."""
        return int(self.model.config.hidden_size)

    @property
    def layers(self) -> int:
        """Transformer blocks; hidden states are numbered from 0 (the embeddings) to this."""
        return int(self.model.config.num_hidden_layers)

    @property
    def max_tokens(self) -> int | None:
        """The longest sentence, in tokens with the special ones, that has position embeddings; None if unlimited."""
        limit = getattr(self.model.config, "max_position_embeddings", None)
        return None if limit is None else int(limit) - self.first_position

    @property
    def knows_positions(self) -> bool:
        """Whether position ids matter; some DeBERTa models only know distances between tokens."""
        return bool(getattr(self.model.config, "position_biased_input", True))

    @fast_float32()
    def forward(
        self,
        tokens: Packed,
        augmentation: Augmentation | None = None,
        generator: Generator | None = None,
        all_layers: bool = False,
    ) -> tuple[Tensor, ...]:
        """Hidden states of packed sentences.

        Args:
            tokens: the batch.
            augmentation: how the sentences are changed in the embedding layer; None leaves them as they are.
            generator: where the augmentation's random numbers come from; needed with one.
            all_layers: every hidden state, embeddings first, or only the last.

        Returns:
            Hidden states [T, d], `layers + 1` of them or one.
        """
        augmentation = augmentation or NoAugmentation()
        generator = generator or torch.default_generator
        layout = _Padded(tokens, self.model.config.pad_token_id or 0) if self.padded else _OneRow(tokens)
        options = {
            "input_ids": layout.lay(tokens.ids),
            "position_ids": layout.lay(augmentation.positions(tokens, generator) + self.first_position),
            "output_hidden_states": all_layers,
            **layout.options,
        }
        if tokens.types is not None and getattr(self.model.config, "type_vocab_size", 0) > 1:
            options["token_type_ids"] = layout.lay(tokens.types)
        if self.training and self.head_dropout:
            options["head_dropout"] = self.head_dropout
        if augmentation == NoAugmentation():
            # No hook then: it would hang on the model itself, for every thread that encodes with it.
            output = self.model(**options)
        else:

            def augment(module: nn.Module, inputs: tuple[Tensor, ...], embeddings: Tensor) -> Tensor:
                return layout.lay(augmentation.embeddings(layout.take(embeddings), tokens, generator))

            hook = self.model.get_submodule("embeddings").register_forward_hook(augment)
            try:
                output = self.model(**options)
            finally:
                hook.remove()
        states = output.hidden_states if all_layers else (output.last_hidden_state,)
        return tuple(layout.take(state) for state in states)

    @contextmanager
    def dropout(self, rate: float | None) -> Iterator[None]:
        """Within it, every dropout layer of the model has this rate; None keeps the model's own."""
        if rate is None:
            yield
            return
        # A layer's rate is the p of an nn.Dropout, or a number of its own (ModernBERT's attention).
        places: list[tuple[nn.Module, str]] = [
            (module, "p") for module in self.model.modules() if isinstance(module, nn.Dropout)
        ]
        places += [
            (module, "attention_dropout")
            for module in self.model.modules()
            if isinstance(getattr(module, "attention_dropout", None), float)
        ]
        own = [getattr(module, name) for module, name in places]
        for module, name in places:
            setattr(module, name, rate)
        try:
            yield
        finally:
            for (module, name), value in zip(places, own, strict=True):
                setattr(module, name, value)

    def check_drop_heads(self, rate: float) -> None:
        """That heads can be dropped at this rate.

        Raises:
            InputError: the model runs padded, with its own attention.
        """
        if rate and self.padded:
            raise InputError(
                f"head_dropout {rate}: models of type {self.model.config.model_type} keep their own attention, where "
                "heads can't be dropped; leave it at 0 or choose another model"
            )

    @contextmanager
    def drop_heads(self, rate: float) -> Iterator[None]:
        """Within it, training drops whole attention heads of a sentence at this rate (DropHead).

        Raises:
            InputError: as `check_drop_heads`.
        """
        self.check_drop_heads(rate)
        self.head_dropout = rate
        try:
            yield
        finally:
            self.head_dropout = 0.0


@cache
def _say_padded(kind: str) -> None:
    """Once a process for each type."""
    logger.warning("Models of type %s can't run on packed sentences; they run padded, which is slower.", kind)


class _OneRow:
    """Packed sentences as a batch of one row: [T, ...] and [1, T, ...]."""

    def __init__(self, tokens: Packed) -> None:
        self.options = {"packed": tokens}

    def lay(self, x: Tensor) -> Tensor:
        return x.unsqueeze(0)

    def take(self, x: Tensor) -> Tensor:
        return x.squeeze(0)


class _Padded:
    """Packed sentences as a padded batch: [T, ...] and [N, longest, ...]."""

    def __init__(self, tokens: Packed, padding: int) -> None:
        self.padding = padding
        longest = torch.arange(int(tokens.lengths[-1]), device=tokens.ids.device)
        self.mask = longest < tokens.lengths[:, None]  # [N, longest]
        self.options = {"attention_mask": self.mask.long()}

    def lay(self, x: Tensor) -> Tensor:
        padded = x.new_full(self.mask.shape + x.shape[1:], self.padding)
        padded[self.mask] = x
        return padded

    def take(self, x: Tensor) -> Tensor:
        return x[self.mask]
