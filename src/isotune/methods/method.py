"""What a method is: it declares what it adds and trains, says which views to encode, and computes a loss.

    adds           what the encoder gets before the first step, and keeps
    views(batch)   which sentences to encode, and how they are changed; by default each text once
    loss(...)      what to make of their vectors

The trainer stands between the two calls and encodes the views. A method therefore has no code for batches, devices,
precision or memory. A constructor changes nothing outside the method: the trainer attaches what `adds` declares.
What only a few methods need is an optional protocol in `protocols.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TypeVar

from torch import Generator, Tensor, nn

from isotune.data.packed import Packed
from isotune.data.rows import Row
from isotune.data.tokens import Tokenized
from isotune.encoder.backbone import Backbone
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads.head import Head
from isotune.encoder.heads.language import LanguageHead
from isotune.encoder.pooling import EachLayer, Pooling, TokenStates
from isotune.errors import InputError
from isotune.methods import METHODS, MethodEntry
from isotune.methods.options import AugmentedOptions, MethodOptions
from isotune.views import AUGMENTATIONS
from isotune.views.augmentation import Augmentation, NoAugmentation
from isotune.views.masking import Masked

M = TypeVar("M", bound="type[Method]")


@dataclass(frozen=True, eq=False)
class Batch:
    """The tokens of N rows."""

    texts: tuple[Packed, ...] = ()  # N sentences for each text of a row: one for sentences, two for pairs
    targets: Tensor | None = None  # [N] int64 class or paragraph numbers, or float32 scores, where rows have these
    sentences: tuple[list[str], ...] = ()  # the texts as strings, where the method `needs_text`
    max_length: int | None = None  # the number of tokens that texts were cut to; None is the encoder's limit
    vectors: tuple[Tensor, ...] = ()  # [N, d] pooled vectors in place of each of `texts`, where the method is `cached`
    generator: Generator = field(default_factory=Generator)  # on the CPU; all random numbers of a method come from it
    tasks: dict[str, Batch] = field(default_factory=dict)  # a batch for each feed, where the method reads several feeds
    masked: tuple[Masked, ...] = ()  # the texts with masked tokens, once `MLM.draw` has drawn them


@dataclass(frozen=True, eq=False)
class View:
    """N sentences to encode."""

    tokens: Packed | None = None  # the sentences
    augmentation: Augmentation = field(default_factory=NoAugmentation)  # how the embedding layer changes the sentences
    pooling: Pooling | EachLayer | TokenStates | None = None  # replaces the encoder's pooling
    # A frozen backbone that replaces the encoder's, without gradient and without heads. It stays in the mode (training
    # or evaluation) that it is in.
    backbone: Backbone | None = None
    heads: bool = True  # whether the encoder's heads are applied after pooling
    vectors: Tensor | None = None  # [N, d] pooled vectors in place of the sentences; only the heads are applied


@dataclass(frozen=True, eq=False)
class Additions:
    """What a method adds to the encoder. All of this stays with the encoder and is saved in its folder."""

    heads: tuple[Head, ...] = ()  # new layers after the encoder's heads, which are trained
    prompt: str | None = None  # replaces the encoder's prompt
    pooling: Pooling | None = None  # replaces the encoder's pooling
    token_weights: Tensor | None = None  # [vocabulary] how much each token weighs in the encoder's mean
    language_head: LanguageHead | None = None  # the masked-language-model head, which is trained

    def parameters(self) -> list[nn.Parameter]:
        """The weights of the new layers."""
        layers = [*self.heads, *([self.language_head] if self.language_head else [])]
        return [parameter for layer in layers for parameter in layer.parameters()]

    def attach(self, encoder: Encoder) -> None:
        """Adds everything to the encoder. The trainer calls this once."""
        encoder.heads.extend(head.to(encoder.device) for head in self.heads)
        if self.prompt is not None:
            encoder.prompt = self.prompt
        if self.pooling is not None:
            encoder.pooling, encoder.token_weights = self.pooling, None  # the weights were made for another pooling
        if self.token_weights is not None:
            encoder.token_weights = self.token_weights.to(encoder.device)
        if self.language_head is not None:
            encoder.language_head = self.language_head.to(encoder.device)

    def drop_from(self, encoder: Encoder) -> None:
        """Removes the new heads and the tokens' weights again, where the encoder is no better with them."""
        if self.heads:
            del encoder.heads[-len(self.heads) :]
        if self.token_weights is not None:
            encoder.token_weights = None


class Method(nn.Module, ABC):
    """A training objective, made from its options and the encoder that it will train.

    The layers that a method registers as its own modules (a projection, a classifier) are trained, checkpointed, and
    dropped after training. The layers in `adds` stay with the encoder.
    """

    options: MethodOptions
    """What the user chose; a subclass names its option model."""

    rows: type[Row]
    """The row type that the method trains on."""

    classes: tuple[str, ...] = ()
    """The labels of labelled rows, in the order of their class numbers."""

    needs_text: bool = False
    """Whether batches carry the texts as strings beside their tokens."""

    separates_copies: bool = True
    """Whether the loss pushes a text apart from its copy in another row."""

    cached: bool = False
    """Whether the backbone is frozen and sees unchanged sentences. The trainer then encodes the corpus once."""

    adds: Additions = Additions()
    """What the method adds to the encoder."""

    augmentations: Sequence[Augmentation] = ()
    """How the embedding layer changes the first views, by the option `augmentations`; other views stay unchanged."""

    pooling: Pooling | None = None
    """Replaces the encoder's pooling in the default `views`."""

    def __init__(self, options: MethodOptions, encoder: Encoder) -> None:
        """Keeps the options, and makes the augmentations that they name.

        Raises:
            InputError: an augmentation changes positions, and the model has no position ids.
        """
        super().__init__()
        self.options = options
        if isinstance(options, AugmentedOptions):
            self.augmentations = [_augmentation(name, options, encoder) for name in options.augmentations]

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """The encoder's parameters that are trained, beside those of `adds`; by default all, or none if `cached`."""
        return () if self.cached else encoder.parameters()

    def tokenize(self, encoder: Encoder, columns: Sequence[list[str]], max_length: int) -> Tokenized:
        """Tokenizes the texts of some rows, column by column; by default each by itself, under the encoder's prompt.

        The encoder has everything that the method adds. Texts are cut to `max_length` tokens.
        """
        return Tokenized([encoder.tokenize(texts, max_length) for texts in columns])

    def views(self, batch: Batch) -> Sequence[View]:
        """The views to encode; by default each text of the rows once, changed by its augmentation.

        A text without a second one is there once for each augmentation.
        """
        if self.cached:
            return [View(vectors=vectors) for vectors in batch.vectors]
        texts = (
            batch.texts * len(self.augmentations) if len(batch.texts) == 1 < len(self.augmentations) else batch.texts
        )
        augmentations = chain(self.augmentations, repeat(NoAugmentation()))
        return [View(text, change, self.pooling) for text, change in zip(texts, augmentations, strict=False)]

    def draw(self, batch: Batch) -> Batch:
        """The batch with random numbers that views and loss share; called once a step, before `views`."""
        return batch

    @abstractmethod
    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Named, weighted scalars, whose sum is minimised; "mlm" is masked language modelling's.

        `encoded` has the vectors [N, d] of each of the batch's views, rows in the batch's order.
        """

    def adversary(self, encoded: Sequence[Tensor], batch: Batch) -> Tensor:
        """The scalar loss that adversarial views increase, from the vectors [N, d] of all other views, in order."""
        raise NotImplementedError

    def penalty(self, encoder: Encoder) -> dict[str, Tensor]:
        """Named, weighted terms of the loss that depend on the weights alone."""
        return {}


def method(name: str, *, options: type[MethodOptions]) -> Callable[[M], M]:
    """A decorator that registers a subclass of `Method`, whose options are a subclass of `MethodOptions`."""
    return METHODS.adding(name, lambda code: MethodEntry(options, code))


def _augmentation(name: str, options: AugmentedOptions, encoder: Encoder) -> Augmentation:
    augmentation = AUGMENTATIONS[name].from_options(options)
    if type(augmentation).positions is not Augmentation.positions and not encoder.backbone.knows_positions:
        raise InputError(
            f"augmentation {name}: this model has no positions; give --augmentations token_cutoff feature_cutoff"
        )
    return augmentation
