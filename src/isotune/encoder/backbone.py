"""A pretrained transformers model, run on packed sentences.

The model is transformers' own class. It gets the row of all T token ids (`data/packed.py`) as a
batch of one long text [1, T]. Two things keep the sentences apart: position ids that start anew at
each sentence, and an attention function in which a token sees only its own sentence
(`kernels/attention.py`). Augmentations change the position ids, and the output of the embedding
layer by a forward hook.

The attention of a few models can't be replaced (DeBERTa). They run on a padded batch, which is
slower, and give the same numbers. What differs between model types is in the table `kinds.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache

import torch
from torch import Tensor, nn
from transformers import MPNetModel, PreTrainedModel

from isotune.data.draws import split_seeds
from isotune.data.packed import Packed
from isotune.encoder.kinds import kind_of
from isotune.encoder.mpnet import PASSED, take_packed
from isotune.errors import InputError
from isotune.kernels.attention import PACKED
from isotune.kernels.cpu.dropout import DRAWS, Draws, replace_dropout, with_value
from isotune.kernels.cpu.float32 import fast_float32
from isotune.kernels.gpu import can_flash
from isotune.views.augmentation import Augmentation

logger = logging.getLogger(__name__)
_warn_once = cache(logger.warning)


@dataclass
class _Recording:
    """The hidden states that are wanted of a forward pass."""

    wanted: Collection[int]
    augment: Callable[[Tensor], Tensor] | None
    """Changes the output of the embedding layer."""
    states: dict[int, Tensor] = field(default_factory=dict)
    layer: int = 0
    """The number of the next state."""

    def keep(self, state: Tensor) -> None:
        if self.layer in self.wanted:
            self.states[self.layer] = state
        self.layer += 1


_recording: ContextVar[_Recording] = ContextVar("recording")
"""What is wanted of the forward pass that a thread is in, and its hidden states."""


class _NothingAboveIsRead(Exception):
    """Ends a forward pass below the blocks whose output nobody reads."""


class Backbone(nn.Module):
    """A pretrained model on packed sentences.

    The sentences of a batch have T tokens together; the hidden states are packed too, [T, d].
    """

    def __init__(self, model: PreTrainedModel) -> None:
        """Replaces the model's attention by packed attention, and its dropout by a faster one.

        The attention of some models can't be replaced. `model` has no task head.
        """
        super().__init__()
        config = model.config.to_dict()
        self.kind = kind_of(config)
        # Whether a token sees itself and the tokens before it only.
        self.causal = self.kind.is_causal(config)
        replace_dropout(model)
        self.model = model
        # See `dropout`.
        self._attention_dropout: float | None = None
        # Whether batches are padded inside the model. The results are packed all the same.
        self.padded = not self.kind.packed
        if self.padded:
            _warn_once(
                "Models of type %s can't run on packed sentences; they run padded, which is "
                "slower.",
                model.config.model_type,
            )
        elif isinstance(model, MPNetModel):
            take_packed(model)
        else:
            model.set_attn_implementation(PACKED)
        self.embeddings.register_forward_hook(_augment_embeddings)
        for block in self.blocks:
            block.register_forward_pre_hook(_record)
        # The number of a sentence's first position.
        self.first_position = 0
        if self.kind.positions == "after padding":
            self.first_position = self._padding_id() + 1
        # Features of the last hidden state.
        self.dimension: int = getattr(model.config, self.kind.features)
        # Hidden states have numbers from 0 (the embeddings) to this.
        self.layers: int = model.config.num_hidden_layers
        # Tokens of the longest sentence that the model was made for, special tokens included; None
        # if unlimited. Only rotary positions have more.
        self.max_tokens: int | None = getattr(model.config, "max_position_embeddings", None)
        if self.max_tokens is not None:
            self.max_tokens -= self.first_position

    def pad(self) -> None:
        """Has the model run on padded batches from now on, by transformers' own attention."""
        # The classes of MPNet pad where no batch is packed.
        if not self.padded and not isinstance(self.model, MPNetModel):
            self.model.set_attn_implementation("eager")
        self.padded = True

    def check_layers(self, layers: Collection[int]) -> None:
        """Checks that the hidden states of these layers, from 0, have the last one's features."""
        width = self.model.config.hidden_size
        if self.dimension != width and set(layers) != {self.layers}:
            raise InputError(
                f"layers {sorted(layers)}: models of type {self.model.config.model_type} have "
                f"{self.dimension} features in their last layer and {width} in all others; only "
                "the last layer can be used"
            )

    def no_noise(self, tokens: int) -> Tensor:
        """Zeros [tokens, e] that may be added to the output of the embedding layer."""
        words = self.model.get_input_embeddings()
        assert isinstance(words, nn.Embedding)
        features = words.embedding_dim
        # DeBERTa may project its embeddings.
        projection = getattr(self.embeddings, "embed_proj", None)
        if projection:
            features = projection.out_features
        return words.weight.new_zeros(tokens, features)

    @property
    def multiplications(self) -> int:
        """About how many multiplications a token takes: those of its products with the weights.

        A block of BERT's form has 12 dimension² weights.
        """
        return 12 * self.dimension**2 * self.layers

    def _padding_id(self) -> int:
        """The padding token's id, as the embedding layer of RoBERTa and its kin has it."""
        padding_id = self.embeddings.padding_idx
        assert isinstance(padding_id, int)
        return padding_id

    @property
    def embeddings(self) -> nn.Module:
        """The layer whose output is the input of the first block."""
        return self.model.get_submodule(self.kind.embeddings)

    @property
    def blocks(self) -> nn.ModuleList:
        """The transformer blocks from below; ALBERT has one, which it calls several times."""
        # In every supported model the first list of modules holds the blocks.
        return next(module for module in self.model.modules() if isinstance(module, nn.ModuleList))

    @fast_float32()
    def forward(
        self,
        tokens: Packed,
        augmentation: Augmentation | None = None,
        layers: Collection[int] | None = None,
    ) -> dict[int, Tensor]:
        """Computes hidden states of packed sentences: {number of the layer: [T, d]}.

        Args:
            tokens: the batch. Its seeds decide the random numbers of augmentation and, on a CPU, of
                dropout; without seeds, torch's generator does.
            augmentation: changes the sentences in the embedding layer; None changes nothing.
            layers: the hidden states to return, from 0 (the embeddings) to `self.layers`; None for
                the last alone. Blocks above the highest of them are not run.
        """
        augmentation = augmentation or Augmentation()
        if layers is None:
            layers = (self.layers,)
        self.check_layers(layers)
        if self.training and tokens.seeds is None:
            seeds = torch.randint(2**62, (len(tokens),))
            tokens = replace(tokens, seeds=seeds.to(tokens.ids.device))
        passed: dict[str, object] = {}
        inputs: dict[str, object] = {}
        if self.padded:
            inputs["attention_mask"] = tokens.mask.long()
        else:
            rate = None
            if self.training:
                rate = self._attention_dropout
            passed = {"packed": tokens, "attention_dropout": rate, "causal": self.causal}
            inputs |= passed
        inputs["input_ids"] = self._to_model(tokens, tokens.ids)
        inputs["position_ids"] = self._to_model(tokens, self._positions(tokens, augmentation))
        if tokens.types is not None and getattr(self.model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = self._to_model(tokens, tokens.types)

        def augment(embeddings: Tensor) -> Tensor:
            packed = self._to_packed(tokens, embeddings)
            return self._to_model(tokens, augmentation.embeddings(packed, tokens))

        change = None
        if augmentation != Augmentation():
            change = augment
        with self._drawing(tokens), with_value(PASSED, passed):
            states = self.run_model(inputs, layers, change)
        return {layer: self._to_packed(tokens, state) for layer, state in states.items()}

    def _to_model(self, tokens: Packed, x: Tensor) -> Tensor:
        """[T, ...] -> [1, T, ...], a batch of one long text.

        For a padded model, it is [N, longest, ...].
        """
        if self.padded:
            return tokens.pad(x)
        return x.unsqueeze(0)

    def _to_packed(self, tokens: Packed, x: Tensor) -> Tensor:
        """What `_to_model` was given."""
        if self.padded:
            return tokens.unpad(x)
        return x.squeeze(0)

    def _positions(self, tokens: Packed, augmentation: Augmentation) -> Tensor:
        """[T] int64: position ids.

        RoBERTa and its kin don't count a padding token that is written in a text.
        """
        positions = augmentation.positions(tokens)
        if self.first_position:
            left_out = (tokens.ids == self.first_position - 1).long()
            count = left_out.cumsum(0)
            # How many are left out in the sentence, up to each token.
            before = count - (count - left_out)[tokens.offsets][tokens.segments]
            positions = (positions - before).clamp(min=0).masked_fill(left_out.bool(), -1)
        return positions + self.first_position

    def run_model(
        self,
        inputs: Mapping[str, object],
        layers: Collection[int],
        augment: Callable[[Tensor], Tensor] | None = None,
    ) -> dict[int, Tensor]:
        """Calls the model with its own arguments, up to the highest of these layers.

        Returns {layer: hidden state}.
        """
        recording = _Recording(layers, augment)
        with with_value(_recording, recording), suppress(_NothingAboveIsRead):
            recording.keep(self.model(**inputs).last_hidden_state)
        return recording.states

    def _drawing(self, tokens: Packed) -> AbstractContextManager[None]:
        """Draws dropout by the sentences' seeds, on a CPU in training. Elsewhere, torch draws."""
        if not self.training or tokens.seeds is None or not tokens.ids.is_cpu:
            return nullcontext()
        seeds = split_seeds(tokens.seeds[tokens.segments], tokens.positions)  # [T]
        return with_value(DRAWS, Draws(tokens.seeds, self._to_model(tokens, seeds)))

    @contextmanager
    def dropout(self, rate: float | None, of_attention: float | None = None) -> Iterator[None]:
        """Sets the rate of every dropout layer of the model for a `with` block.

        None keeps the model's own rates. `of_attention` is the rate of attention weights, where
        isotune replaces the attention; None means that they have the rate of other layers.
        """
        before: list[tuple[nn.Module, str, float | None]] = [
            (self, "_attention_dropout", self._attention_dropout)
        ]
        self._attention_dropout = of_attention
        if rate is not None:
            for layer, rate_name, layer_rate in self._dropout_rates():
                before.append((layer, rate_name, layer_rate))
                setattr(layer, rate_name, rate)
        try:
            yield
        finally:
            for module, name, model_rate in before:
                setattr(module, name, model_rate)

    def flashes(self, precision: str, of_model: float | None, of_attention: float | None) -> bool:
        """Whether training with this precision and these rates uses flash attention.

        `of_model` and `of_attention` are the rates of dropout; None for the model's own rates. See
        `kernels/gpu.py`.
        """
        config = self.model.config
        if self.padded or config.model_type == "mpnet":
            return False
        rates = (
            of_attention,
            of_model,
            getattr(config, "attention_probs_dropout_prob", None),
            getattr(config, "attention_dropout", None),
        )
        first_rate = 0.0
        for rate in rates:
            if rate is not None:
                first_rate = rate
                break
        features = getattr(config, "head_dim", None)
        if features is None:
            features = config.hidden_size // config.num_attention_heads
        query = torch.empty(
            0, 1, features, dtype=getattr(torch, precision), device=self.model.device
        )
        return can_flash(query, first_rate)

    def check_attention_dropout(self, rate: float | None) -> None:
        """Checks that the model can drop attention weights at this rate."""
        if rate and self.padded:
            raise InputError(
                f"attention_dropout {rate}: models of type {self.model.config.model_type} keep "
                "their own attention, which isotune can't change; leave attention_dropout out or "
                "choose another model"
            )

    def _dropout_rates(self) -> Iterator[tuple[nn.Module, str, float]]:
        """The layers that drop, each with the name of its rate and the rate."""
        for module in self.model.modules():
            # ModernBERT's attention has a rate of its own.
            name = "attention_dropout"
            if isinstance(module, nn.Dropout):
                name = "p"
            rate = getattr(module, name, None)
            if isinstance(rate, int | float):
                yield module, name, rate


def _augment_embeddings(
    module: nn.Module, inputs: tuple[Tensor, ...], embeddings: Tensor
) -> Tensor:
    """A hook that changes the output of the embedding layer, where a forward pass asks for it."""
    recording = _recording.get(None)
    if recording is None or recording.augment is None:
        return embeddings
    return recording.augment(embeddings)


def _record(block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """A hook that keeps the input of a block, and ends the pass below blocks that nobody reads."""
    recording = _recording.get(None)
    if recording is None:
        return
    recording.keep(inputs[0])
    if recording.layer > max(recording.wanted):
        raise _NothingAboveIsRead
