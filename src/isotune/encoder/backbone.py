"""A pretrained transformers model, run on packed sentences.

The model is transformers' own class. It gets the row of all T token ids (`data/packed.py`) as a batch of one long text
[1, T]. Two things keep the sentences apart: position ids that start anew at each sentence, and an attention function in
which a token sees only its own sentence (`kernels/attention.py`). Augmentations change the position ids, and the output
of the embedding layer by a forward hook.

The attention of a few models can't be replaced (DeBERTa). They run on a padded batch, which is slower, and give the
same numbers. Only the model types in the two tables below are accepted, and each is tested against its own padded
forward pass: a type that looks alike can differ unnoticed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MPNetModel, PreTrainedModel

from isotune.data.draws import split_seeds
from isotune.data.packed import Packed
from isotune.encoder.mpnet import PASSED, take_packed
from isotune.errors import InputError, unknown
from isotune.kernels.attention import PACKED
from isotune.kernels.cpu.dropout import DRAWS, Draws, replace_dropout, using
from isotune.kernels.cpu.float32 import fast_float32
from isotune.kernels.gpu import can_flash
from isotune.views.augmentation import Augmentation

logger = logging.getLogger(__name__)
_warn_once = cache(logger.warning)

# Model types of transformers that run packed, and those that run padded.
PACKED_TYPES = (
    *(
        "albert",
        "bert",
        "camembert",
        "data2vec-text",
        "distilbert",
        "electra",
        "ernie",
        "modernbert",
        "mpnet",
    ),
    *("roberta", "xlm-roberta", "xlm-roberta-xl"),
)
PADDED_TYPES = ("deberta", "deberta-v2", "megatron-bert", "rembert")


@dataclass
class _Recording:
    wanted: Collection[int]
    augment: Callable[[Tensor], Tensor] | None  # changes the output of the embedding layer
    states: dict[int, Tensor] = field(default_factory=dict)
    layer: int = 0  # the number of the next state

    def keep(self, state: Tensor) -> None:
        if self.layer in self.wanted:
            self.states[self.layer] = state
        self.layer += 1


_recording: ContextVar[_Recording] = ContextVar("recording")
"""What is wanted of the forward pass that a thread is in, and its hidden states."""


class _NothingAboveIsRead(Exception):
    """Ends a forward pass below the blocks whose output nobody reads."""


class Backbone(nn.Module):
    """A pretrained model that takes packed sentences, with T tokens together, and gives packed hidden states [T, d]."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Replaces the model's attention by packed attention where possible, and its dropout by a faster one."""
        super().__init__()
        model_type = model.config.model_type
        replace_dropout(model)
        self.model = model  # without a task head
        self._attention_dropout: float | None = None  # see `dropout`
        self.padded = (
            model_type in PADDED_TYPES
        )  # inside the model; the results are packed all the same
        if self.padded:
            _warn_once(
                "Models of type %s can't run on packed sentences; they run padded, which is slower.",
                model_type,
            )
        elif isinstance(model, MPNetModel):
            take_packed(model)
        else:
            model.set_attn_implementation(PACKED)
        model.get_submodule("embeddings").register_forward_hook(_augment_embeddings)
        for block in self.blocks:
            block.register_forward_pre_hook(_record)
        # RoBERTa and its kin count positions from padding_idx + 1; only their embedding layers have the attribute.
        self.first_position: int = getattr(model.get_submodule("embeddings"), "padding_idx", -1) + 1
        self.dimension: int = model.config.hidden_size  # features of a hidden state
        self.layers: int = (
            model.config.num_hidden_layers
        )  # hidden states have numbers from 0 (the embeddings) to this
        limit: int | None = getattr(model.config, "max_position_embeddings", None)
        # Tokens of the longest sentence that has position embeddings, special tokens included; None if unlimited.
        self.max_tokens = None if limit is None else limit - self.first_position

    def pad(self) -> None:
        """Has the model run on padded batches from now on, by transformers' own attention."""
        if not self.padded and not isinstance(
            self.model, MPNetModel
        ):  # which pads where no batch is packed
            self.model.set_attn_implementation("eager")
        self.padded = True

    def no_noise(self, tokens: int) -> Tensor:
        """Zeros [tokens, e] that may be added to the output of the embedding layer."""
        words, embeddings = (
            self.model.get_input_embeddings(),
            self.model.get_submodule("embeddings"),
        )
        last = getattr(embeddings, "embed_proj", None)  # DeBERTa may have one
        assert isinstance(words, nn.Embedding)
        return words.weight.new_zeros(tokens, last.out_features if last else words.embedding_dim)

    @property
    def multiplications(self) -> int:
        """About how many multiplications a token takes: those of its products with the weights.

        A block of BERT's form has 12 dimension² weights.
        """
        return 12 * self.dimension**2 * self.layers

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
            tokens: the batch. Its seeds decide the random numbers of augmentation and, on a CPU, of dropout; without
                seeds, torch's generator does.
            augmentation: changes the sentences in the embedding layer; None changes nothing.
            layers: the hidden states to return, from 0 (the embeddings) to `self.layers`; None for the last alone.
                Blocks above the highest of them are not run.
        """
        augmentation = augmentation or Augmentation()
        if self.training and tokens.seeds is None:
            tokens = replace(
                tokens, seeds=torch.randint(2**62, (len(tokens),)).to(tokens.ids.device)
            )
        rate = self._attention_dropout if self.training else None
        passed: dict[str, object] = (
            {} if self.padded else {"packed": tokens, "attention_dropout": rate}
        )
        inputs = {"attention_mask": tokens.mask.long()} if self.padded else passed.copy()
        inputs["input_ids"] = self._to_model(tokens, tokens.ids)
        inputs["position_ids"] = self._to_model(tokens, self._positions(tokens, augmentation))
        if tokens.types is not None and getattr(self.model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = self._to_model(tokens, tokens.types)

        def augment(embeddings: Tensor) -> Tensor:
            return self._to_model(
                tokens, augmentation.embeddings(self._to_packed(tokens, embeddings), tokens)
            )

        changes = None if augmentation == Augmentation() else augment
        with self._drawing(tokens), using(PASSED, passed):
            states = self.run_model(inputs, (self.layers,) if layers is None else layers, changes)
        return {layer: self._to_packed(tokens, state) for layer, state in states.items()}

    def _to_model(self, tokens: Packed, x: Tensor) -> Tensor:
        """[T, ...] -> [1, T, ...], a batch of one long text; for a padded model [N, longest, ...]."""
        return tokens.pad(x) if self.padded else x.unsqueeze(0)

    def _to_packed(self, tokens: Packed, x: Tensor) -> Tensor:
        return tokens.unpad(x) if self.padded else x.squeeze(0)

    def _positions(self, tokens: Packed, augmentation: Augmentation) -> Tensor:
        """[T] int64: position ids. RoBERTa and its kin don't count a padding token that is written in a text."""
        positions = augmentation.positions(tokens)
        if self.first_position:
            left_out = (tokens.ids == self.first_position - 1).long()
            count = left_out.cumsum(0)
            before = count - (count - left_out)[tokens.offsets][tokens.segments]  # in the sentence
            positions = (positions - before).clamp(min=0).masked_fill(left_out.bool(), -1)
        return positions + self.first_position

    def run_model(
        self,
        inputs: Mapping[str, object],
        layers: Collection[int],
        augment: Callable[[Tensor], Tensor] | None = None,
    ) -> dict[int, Tensor]:
        """Calls the model with its own arguments, up to the highest of these layers: {layer: hidden state}."""
        recording = _Recording(layers, augment)
        with using(_recording, recording), suppress(_NothingAboveIsRead):
            recording.keep(self.model(**inputs).last_hidden_state)
        return recording.states

    def _drawing(self, tokens: Packed) -> AbstractContextManager[None]:
        if (
            not self.training or tokens.seeds is None or not tokens.ids.is_cpu
        ):  # dropout is torch's elsewhere
            return nullcontext()
        seeds = split_seeds(tokens.seeds[tokens.segments], tokens.positions)  # [T]
        return using(DRAWS, Draws(tokens.seeds, self._to_model(tokens, seeds)))

    @contextmanager
    def dropout(self, rate: float | None, of_attention: float | None = None) -> Iterator[None]:
        """Sets the rate of every dropout layer of the model for a `with` block; None keeps the model's own rates.

        `of_attention` is the rate of attention weights, where isotune replaces the attention; None: like other layers.
        """
        before: list[tuple[nn.Module, str, float | None]] = [
            (self, "_attention_dropout", self._attention_dropout)
        ]
        self._attention_dropout = of_attention
        for module in [] if rate is None else self.model.modules():
            # A layer's rate is the p of an nn.Dropout, or a number of its own (ModernBERT's attention).
            name = "p" if isinstance(module, nn.Dropout) else "attention_dropout"
            if isinstance(model_rate := getattr(module, name, None), int | float):
                before.append((module, name, model_rate))
                setattr(module, name, rate)
        try:
            yield
        finally:
            for module, name, model_rate in before:
                setattr(module, name, model_rate)

    def flashes(self, precision: str, of_model: float | None, of_attention: float | None) -> bool:
        """Whether training with this precision and these rates of dropout uses flash attention (`kernels/gpu.py`)."""
        config = self.model.config
        rates = (of_attention, of_model, getattr(config, "attention_probs_dropout_prob", None))
        rate = next(
            (
                rate
                for rate in (*rates, getattr(config, "attention_dropout", None))
                if rate is not None
            ),
            0.0,
        )
        features = config.hidden_size // config.num_attention_heads
        query = torch.empty(
            0, 1, features, dtype=getattr(torch, precision), device=self.model.device
        )
        return not self.padded and config.model_type != "mpnet" and can_flash(query, rate)

    def check_attention_dropout(self, rate: float | None) -> None:
        """Checks that the model can drop attention weights at this rate."""
        if rate and self.padded:
            raise InputError(
                f"attention_dropout {rate}: models of type {self.model.config.model_type} keep their own attention, "
                "which isotune can't change; leave attention_dropout out or choose another model"
            )


def refuse_other_models(config: Mapping[str, Any]) -> None:
    """Raises InputError for a model's config.json if `Backbone` can't run the model as it is meant."""
    model_type = config.get("model_type")
    if model_type not in PACKED_TYPES + PADDED_TYPES:
        architectures = config.get("architectures") or ["no architecture"]
        raise InputError(
            f"{unknown('model type', str(model_type), PACKED_TYPES + PADDED_TYPES)} ({architectures[0]})"
        )
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise InputError(
            "the model is set up as a decoder (is_decoder), whose tokens don't see what follows them"
        )
    if (positions := config.get("position_embedding_type")) not in (None, "absolute"):
        raise InputError(
            f"position_embedding_type {positions!r}: transformers gives such models absolute positions"
        )


def _augment_embeddings(
    module: nn.Module, inputs: tuple[Tensor, ...], embeddings: Tensor
) -> Tensor:
    recording = _recording.get(None)
    return recording.augment(embeddings) if recording and recording.augment else embeddings


def _record(block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    if recording := _recording.get(None):
        recording.keep(inputs[0])
        if recording.layer > max(recording.wanted):
            raise _NothingAboveIsRead
