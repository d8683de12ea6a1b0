"""A pretrained transformers model, run on packed sentences.

The model is transformers' own class, unchanged. Packed sentences enter it as a batch of one row [1, T], with explicit
position ids and `attention.packed_attention` between the tokens; augmentations act on the position ids before, and on
the output of the embedding layer by a forward hook. A model class whose attention can't be replaced (MPNet,
DeBERTa-v2) runs padded and gives the same numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn
from transformers import PreTrainedModel

from isotune.data.packed import Packed
from isotune.encoder.attention import PACKED
from isotune.views.augmentation import Augmentation, NoAugmentation

logger = logging.getLogger(__name__)


class Backbone(nn.Module):
    """Token ids in, hidden states of every layer out, packed on both sides."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Takes a base model (no task head) and switches its attention to the packed one where that is possible."""
        super().__init__()
        self.model = model
        self.padded = not model._supports_attention_backend
        if self.padded:
            logger.warning("%s can't run on packed sentences; it runs padded, which is slower.", type(model).__name__)
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
        layout = _Padded(tokens) if self.padded else _OneRow(tokens)

        def augment(module: nn.Module, inputs: tuple[Tensor, ...], embeddings: Tensor) -> Tensor:
            return layout.lay(augmentation.embeddings(layout.take(embeddings), tokens, generator))

        hook = self.model.get_submodule("embeddings").register_forward_hook(augment)
        try:
            output = self.model(
                input_ids=layout.lay(tokens.ids),
                position_ids=layout.lay(augmentation.positions(tokens, generator) + self.first_position),
                output_hidden_states=all_layers,
                **layout.options,
            )
        finally:
            hook.remove()
        states = output.hidden_states if all_layers else (output.last_hidden_state,)
        return tuple(layout.take(state) for state in states)

    @contextmanager
    def dropout(self, rate: float | None) -> Iterator[None]:
        """Within it, every dropout layer of the model has this rate; None keeps the model's own."""
        modules = [module for module in self.model.modules() if isinstance(module, nn.Dropout)]
        rates = [module.p for module in modules]
        for module in modules:
            module.p = module.p if rate is None else rate
        try:
            yield
        finally:
            for module, own in zip(modules, rates, strict=True):
                module.p = own


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

    def __init__(self, tokens: Packed) -> None:
        longest = torch.arange(int(tokens.lengths[-1]), device=tokens.ids.device)
        self.mask = longest < tokens.lengths[:, None]  # [N, longest]
        self.options = {"attention_mask": self.mask.long()}

    def lay(self, x: Tensor) -> Tensor:
        # Padding is hidden by the attention mask, so any token id will do; 0 is always in the vocabulary.
        padded = x.new_zeros(self.mask.shape + x.shape[1:])
        padded[self.mask] = x
        return padded

    def take(self, x: Tensor) -> Tensor:
        return x[self.mask]
