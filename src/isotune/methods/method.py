"""What a method is: it declares what it adds, says which views to encode, and computes a loss.

    adds           what the encoder gets before the first step, and keeps
    feeds()        the rows that are trained on; by default one feed of `rows`
    views(batch)   which sentences to encode, and how they are changed; by default each text once
    loss(...)      what to make of their vectors

The trainer stands between the two calls and encodes the views. A method therefore has no code for
batches, devices, precision or memory. A constructor changes nothing outside the method: the trainer
attaches what `adds` declares.

The trainer treats all methods alike. What only a few methods need is a function that does nothing
unless overridden: `prepare` (rows that are made from others), `scored` and `predict` (labelled rows
that choose the step), `draw` (random numbers that views and loss share), `adversary`, and
`penalty`. A `ClosedForm` is fitted and takes no steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import torch
from torch import Generator, Tensor, nn

from isotune.data.packed import Packed, to_device
from isotune.data.rows import Row, Sentence
from isotune.data.tokens import Tokenized
from isotune.encoder.backbone import Backbone
from isotune.encoder.classifier_head import ClassifierHead
from isotune.encoder.encoder import NO_PROMPTS, Encoder
from isotune.encoder.heads import Head, Heads, Normalize, is_cut
from isotune.encoder.language import LanguageHead
from isotune.encoder.pooling import Pooling, TokenStates
from isotune.errors import InputError
from isotune.methods import METHODS, OPTIONS
from isotune.methods.options import AugmentedOptions, MethodOptions
from isotune.views import AUGMENTATIONS
from isotune.views.adversarial import Adversarial
from isotune.views.augmentation import Augmentation
from isotune.views.masking import Masked

M = TypeVar("M", bound="type[Method]")


ROWS = "rows"
"""The name of the feed of a method that trains on rows of one kind."""

Split = Literal["dev", "test"]

ENOUGH = 100_000
"""Rows of which a closed form is computed; docs/methods.md says what more rows change."""


@dataclass(frozen=True)
class Feed:
    """A source of rows to train on."""

    rows: type[Row]
    """The rows that are tokenized."""

    reads: type[Row] | None = None
    """The rows of the source, where `Method.prepare` makes the others from them."""

    data: tuple[str, ...] = ()
    """The sources, as `data.read` takes them; empty for those of the stage."""

    batch_size: int = 0
    """Rows in one update; 0 for the stage's option."""

    classes: tuple[str, ...] = ()
    """The labels of labelled rows, in the order of their class numbers."""

    enough: int = 0
    """Rows that are drawn where the user asks for no number; 0 for those that the steps take."""

    @property
    def row_type(self) -> type[Row]:
        """The rows of the source."""
        return self.reads or self.rows

    @property
    def source_names(self) -> str:
        """The sources in words, for messages."""
        return ", ".join(self.data) or "rows"


@dataclass(frozen=True)
class ScoredFeed:
    """A source of labelled rows that a method is scored on."""

    rows: type[Row]
    """The rows that are tokenized."""

    data: tuple[str, ...]
    """The sources, as `data.read` takes them.

    It is empty for the rows of the run that `test_share` leaves to choose the step.
    """

    metrics: Mapping[str, str]
    """The metric (`evaluation.metrics`) of each score, by the score's name."""

    classes: tuple[str, ...] = ()
    """The labels of labelled rows, in the order of their class numbers."""

    part: tuple[float, float] = (0.0, 1.0)
    """Where the rows to score on begin and end, as shares of all rows."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The tokens of N rows."""

    texts: tuple[Packed, ...] = ()
    """N sentences for each text of a row: one text for sentences, two for pairs."""

    targets: Tensor | None = None
    """[N] int64 class numbers, [N] float32 scores, or [N, D] vectors of teachers."""

    sentences: tuple[list[str], ...] = ()
    """The texts as strings, where the method `needs_text`."""

    max_length: int | None = None
    """The number of tokens that texts were cut to; None is the encoder's limit."""

    generator: Generator = field(default_factory=Generator)
    """The generator of all random numbers of a method, on the CPU."""

    feeds: Mapping[str, Batch] = field(default_factory=dict)
    """The batch of each feed, where there are several; `texts` has all texts."""

    masked: tuple[Masked, ...] = ()
    """The texts with masked tokens, once `MLM.draw` has drawn them."""

    vectors: tuple[Tensor, ...] = ()
    """[N, d] pooled vectors in place of each text, for a method that is `cached`."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        targets = self.targets
        if targets is not None:
            targets = to_device(targets, device)
        return replace(
            self,
            texts=tuple(text.to(device) for text in self.texts),
            targets=targets,
            feeds={name: batch.to(device) for name, batch in self.feeds.items()},
            masked=tuple(masked.to(device) for masked in self.masked),
            vectors=tuple(to_device(vectors, device) for vectors in self.vectors),
        )

    @classmethod
    def of_feeds(cls, feeds: Mapping[str, Batch], generator: Generator) -> Batch:
        """The batch of a step from the batch of each feed, by name.

        The batch of an only feed stays as it is.
        """
        if len(feeds) == 1:
            return next(iter(feeds.values()))
        texts: list[Packed] = []
        for batch in feeds.values():
            texts.extend(batch.texts)
        return cls(tuple(texts), generator=generator, feeds=feeds)


@dataclass(frozen=True, eq=False)
class View:
    """N sentences to encode."""

    tokens: Packed

    augmentation: Augmentation = field(default_factory=Augmentation)
    """How the embedding layer changes the sentences."""

    pooling: Pooling | TokenStates | None = None
    """Replaces the encoder's pooling."""

    backbone: Backbone | None = None
    """A frozen backbone that replaces the encoder's, without gradient and without heads.

    It stays in the mode (training or evaluation) that it is in.
    """

    heads: bool = True
    """Whether the encoder's heads are applied after pooling."""

    @property
    def is_adversarial(self) -> bool:
        """Whether the view is made by an attack on another view of the step."""
        return isinstance(self.augmentation, Adversarial)


@dataclass(frozen=True, eq=False)
class VectorView:
    """N sentences whose pooled vectors are there already: the encoder's heads are applied."""

    vectors: Tensor  # [N, d]


@dataclass(frozen=True, eq=False)
class Additions:
    """What a method adds to the encoder. It stays with the encoder and is saved in its folder."""

    heads: tuple[Head, ...] = ()
    """New layers after the encoder's heads, which are trained."""

    prompt: str | None = None
    """Replaces the encoder's prompt."""

    pooling: Pooling | None = None
    """Replaces the encoder's pooling."""

    drops_heads: bool = False
    """Whether the encoder loses the heads that it has.

    A head that scales vectors to length 1 stays: programs that take the dot product of two vectors
    for their cosine rely on it.
    """

    token_weights: Tensor | None = None
    """[vocabulary] how much each token weighs in the encoder's mean."""

    language_head: LanguageHead | None = None
    """The masked-language-model head, which is trained."""

    @property
    def reshapes(self) -> bool:
        """Whether the encoder differs from the start at step 0.

        New heads don't count: without a gain they go.
        """
        return self.pooling is not None or self.prompt is not None or self.drops_heads

    def dimension(self, encoder: Encoder) -> int:
        """Features of the encoder's vectors, once everything is added."""
        size = encoder.dimension
        if self.drops_heads:
            size = encoder.backbone.dimension
        return Heads(size, self.heads).dimension

    def parameters(self) -> list[nn.Parameter]:
        """The weights of the new layers."""
        layers: list[nn.Module] = [*self.heads]
        if self.language_head is not None:
            layers.append(self.language_head)
        parameters: list[nn.Parameter] = []
        for layer in layers:
            parameters.extend(layer.parameters())
        return parameters

    def attach(self, encoder: Encoder) -> None:
        """Adds everything to the encoder. The trainer calls this once.

        Raises:
            InputError: there are new layers, and the encoder's vectors are cut.
        """
        if self.drops_heads:
            scaling = [head for head in encoder.heads if isinstance(head, Normalize)]
            del encoder.heads[:]
            encoder.heads.extend(scaling)
        if self.heads and is_cut(encoder.heads):
            raise InputError(
                f"the encoder's vectors are cut to {encoder.dimension} features (truncate_dim), "
                "and this method adds a layer behind them; remove truncate_dim from a copy of the "
                "folder, and cut afterwards"
            )
        encoder.heads.extend(head.to(encoder.device) for head in self.heads)
        if self.prompt is not None:
            encoder.prompt = self.prompt
            encoder.settings = {**encoder.settings, **NO_PROMPTS}
        if self.pooling is not None:
            encoder.pooling = self.pooling
            # The weights were made for another pooling.
            encoder.token_weights = None
        if self.token_weights is not None:
            encoder.token_weights = self.token_weights.to(encoder.device)
        if self.language_head is not None:
            encoder.language_head = self.language_head.to(encoder.device)

    def drop_from(self, encoder: Encoder) -> None:
        """Removes the new heads and the tokens' weights, with which the encoder is no better."""
        if self.heads:
            del encoder.heads[-len(self.heads) :]
        if self.token_weights is not None:
            encoder.token_weights = None


class Method(nn.Module, ABC):
    """A training objective, made from its options and the encoder that it will train.

    The layers that a method registers as its own modules (a projection) are trained, checkpointed,
    and dropped after training, but for those that `classifiers` names. The layers in `adds` stay
    with the encoder.
    """

    options: MethodOptions
    """What the user chose; a subclass names its option model."""

    fixed = ""
    """The name of a module that is a copy of the encoder before the stage, and never changes."""

    rows: type[Row]
    """The row type that is tokenized, unless `feeds` is overridden."""

    reads: type[Row] | None = None
    """The row type in the source, where `prepare` makes `rows` from it."""

    classes: tuple[str, ...] = ()
    """The labels of labelled rows, in the order of their class numbers."""

    needs_text: bool = False
    """Whether batches carry the texts as strings beside their tokens."""

    separates_copies: bool = True
    """Whether the loss pushes a text apart from its copy in another row."""

    tunes: bool = True
    """Whether the encoder is changed. What only reads its vectors leaves the encoder as it is."""

    has_widths: bool = True
    """Whether the loss is one of sentence vectors, and so of their first features too
    (`matryoshka`)."""

    cached: bool = False
    """Whether the backbone is frozen and sees unchanged sentences. The trainer then encodes the
    corpus once."""

    teachers: Sequence[Encoder] = ()
    """Encoders whose vectors of a row's text are its targets, computed once; then the method
    `needs_text`."""

    space_of: str | None = None
    """The fingerprint of the encoder whose vectors are learned, so that both can be compared."""

    adds: Additions = Additions()
    """What the method adds to the encoder."""

    augmentations: Sequence[Augmentation] = ()
    """How the embedding layer changes the first views, by the option `augmentations`; other views
    stay unchanged."""

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
            names = options.augmentations
            self.augmentations = [_augmentation(name, options, encoder) for name in names]

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """The encoder's parameters that are trained, beside those of `adds`.

        By default these are all, or none if the method is `cached`.
        """
        return () if self.cached else encoder.parameters()

    def tokenize(
        self, encoder: Encoder, columns: Sequence[list[str]], max_length: int
    ) -> Tokenized:
        """Tokenizes the texts of some rows, column by column.

        By default each text is tokenized by itself, under the encoder's prompt. The encoder has
        everything that the method adds. Texts are cut to `max_length` tokens.
        """
        return Tokenized([encoder.tokenize(texts, max_length) for texts in columns])

    def feeds(self) -> Mapping[str, Feed]:
        """The rows that one update takes, by the name of the feed; by default a feed of `rows`."""
        return {ROWS: Feed(self.rows, self.reads, classes=self.classes)}

    def scored(self, split: Split) -> Mapping[str, ScoredFeed]:
        """The labelled rows, by name, that the method's own predictions are scored on.

        There are none by default. Where there are "dev" rows, the mean of their scores chooses the
        step, in place of the run's dev pairs. "test" rows have the names of dev rows. They score
        the step that is kept, and choose nothing.
        """
        return {}

    def prepare(
        self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]
    ) -> Iterable[Row]:
        """Makes the rows to tokenize from the rows of the source, as a stream.

        By default they are the same. `cache` is a folder for texts that are costly to make, if
        there is one. `say` writes a line into the run's log.
        """
        return rows

    def views(self, batch: Batch) -> Sequence[View | VectorView]:
        """The views to encode; by default each text of the rows once, changed by its augmentation.

        A text without a second one is there once for each augmentation.
        """
        if batch.vectors:
            return [VectorView(vectors) for vectors in batch.vectors]
        texts = batch.texts
        if len(texts) == 1:
            texts = texts * max(1, len(self.augmentations))
        views = [View(text, pooling=self.pooling) for text in texts]
        for number, augmentation in enumerate(self.augmentations):
            views[number] = replace(views[number], augmentation=augmentation)
        return views

    def draw(self, batch: Batch) -> Batch:
        """The batch with random numbers that views and loss share.

        The trainer calls this once a step, before `views`.
        """
        return batch

    @abstractmethod
    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Named, weighted scalars, whose sum is minimised; "mlm" is masked language modelling's.

        `encoded` has the vectors [N, d] of each of the batch's views, rows in the batch's order.
        """

    def predict(self, name: str, encoded: Sequence[Tensor]) -> Tensor:
        """Class numbers or scores [N] of `scored` rows of this name, from their views' vectors."""
        raise NotImplementedError

    def classifiers(self, max_length: int) -> Mapping[str, ClassifierHead]:
        """The heads that predict `scored` rows of these names; they are saved with the encoder.

        There are none by default. A head reads the first view's vectors. `max_length` is the
        number of tokens that the rows' texts were cut to.
        """
        return {}

    def adversary(self, encoded: Sequence[Tensor], batch: Batch) -> Tensor:
        """The scalar loss that adversarial views increase.

        `encoded` has the vectors [N, d] of all other views, in order.
        """
        raise NotImplementedError

    def penalty(self, encoder: Encoder) -> dict[str, Tensor]:
        """Named, weighted terms of the loss that depend on the weights alone."""
        return {}


class ClosedForm(Method):
    """A method that minimises nothing: its result follows from the vectors of all texts.

    The vectors are computed once.
    """

    rows = Sentence
    cached = True

    def feeds(self) -> Mapping[str, Feed]:
        """Sentences, which one update takes all."""
        return {ROWS: Feed(Sentence, batch_size=1, enough=ENOUGH)}

    def check(self, texts: int) -> None:
        """Checks that the number of texts is enough, before anything is computed."""

    def count(self, encoder: Encoder, counts: Tensor) -> None:
        """Gets the number of times [vocabulary] that each token id occurs.

        The trainer calls this before it computes the vectors.
        """

    def teach(self, targets: Tensor) -> None:
        """Gets the vectors [N, sum of features] that the method's teachers give to all texts.

        The trainer calls this before `fit`, if there are teachers.
        """

    @abstractmethod
    def fit(self, encoder: Encoder, vectors: Tensor) -> None:
        """Sets the weights of the added layers, from the pooled vectors [N, d] of all texts."""

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """No terms."""
        return {}


def method(name: str, *, options: type[MethodOptions]) -> Callable[[M], M]:
    """A decorator that registers a subclass of `Method` under a name.

    `options` is a subclass of `MethodOptions`.
    """

    def add(code: M) -> M:
        OPTIONS.add(name, options, f"{code.__module__}.{code.__qualname__}")
        return METHODS.adding(name)(code)

    return add


def _augmentation(name: str, options: AugmentedOptions, encoder: Encoder) -> Augmentation:
    """The augmentation of this name. A rate may stand behind the name, after a colon."""
    kind, _, rate = name.partition(":")
    augmentation: Any = AUGMENTATIONS[kind].from_options(options)
    if rate:
        if not hasattr(augmentation, "rate"):
            raise InputError(f"augmentation {name}: {kind} has no rate; leave :{rate} out")
        augmentation = replace(augmentation, rate=float(rate))
    changes_positions = type(augmentation).positions is not Augmentation.positions
    if changes_positions and not _knows_positions(encoder):
        raise InputError(
            f"augmentation {name}: this model has no positions; give the augmentations "
            "token_cutoff and feature_cutoff"
        )
    return augmentation


def _knows_positions(encoder: Encoder) -> bool:
    """Whether the model has positions. Some DeBERTa models only know distances between tokens."""
    config = encoder.backbone.model.config
    return bool(getattr(config, "position_biased_input", True))
