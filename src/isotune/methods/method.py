"""What a method is: which views of a batch to encode, and what to make of the vectors. Nothing else.

Between the two calls stands the trainer, which encodes the views, those of one kind in one forward pass. A method
never calls the encoder, so how that is done is never its concern. What else a method can say has a default here that
fits the plain case: sentences in, every weight of the encoder trained, the best step chosen by scored pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from torch import Generator, Tensor, nn

from isotune.data.packed import Packed
from isotune.data.rows import Row
from isotune.encoder.backbone import Backbone
from isotune.encoder.encoder import Encoder
from isotune.encoder.pooling import EachLayer, Pooling, TokenStates
from isotune.views.augmentation import Augmentation, NoAugmentation


@dataclass(frozen=True, eq=False)
class Batch:
    """The tokens of N rows.

    Attributes:
        texts: a packed batch of N sentences for each text of a row (one for sentences, two for pairs).
        targets: [N] int64 class numbers or float32 scores, where rows have labels or scores.
        sentences: the texts themselves, N for each text of a row, where the method `needs_text`.
        max_length: tokens that they were cut to; None is the encoder's own limit.
        vectors: [N, d] pooled vectors for each text of a row, in place of `texts`, where the method is `cached`.
        generator: on the CPU, seeded anew for every step; all of a method's random numbers come from it.
        tasks: a batch for each of the method's feeds, where it has feeds.
    """

    texts: tuple[Packed, ...] = ()
    targets: Tensor | None = None
    sentences: tuple[list[str], ...] = ()
    max_length: int | None = None
    vectors: tuple[Tensor, ...] = ()
    generator: Generator = field(default_factory=Generator)
    tasks: Mapping[str, Batch] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class View:
    """N sentences to encode.

    Attributes:
        tokens: the sentences.
        augmentation: how they are changed in the embedding layer.
        pooling: takes the place of the encoder's own.
        backbone: a frozen one that encodes them in the encoder's place, without gradient and heads, in the mode
            (training or not) that it is in.
        heads: whether the encoder's heads follow its pooling.
        vectors: [N, d] pooled vectors in place of the sentences; only the heads are run.
    """

    tokens: Packed | None = None
    augmentation: Augmentation = field(default_factory=NoAugmentation)
    pooling: Pooling | EachLayer | TokenStates | None = None
    backbone: Backbone | None = None
    heads: bool = True
    vectors: Tensor | None = None


@dataclass(frozen=True)
class Feed:
    """Rows of one kind that a method reads beside others.

    Attributes:
        rows: their kind.
        data: what is read, as `data.read` takes it.
        batch_size: rows of it in a step.
        classes: the labels that labelled rows can have, in the order of their numbers.
        metrics: what `evaluation.metrics` computes of predictions on it, where it is for scoring.
    """

    rows: type[Row]
    data: tuple[str, ...]
    batch_size: int = 0
    classes: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


class Method(nn.Module, ABC):
    """A training objective.

    It is made from its options and the encoder it trains, to which it may add heads that stay with the encoder. Its
    own parameters, if it has any, are trained and then dropped.
    """

    rows: type[Row]
    """What one example is, as it is tokenised."""

    needs_text: bool = False
    """Batches carry the texts themselves."""

    cached: bool = False
    """The backbone is frozen and sees plain sentences: the vectors of the corpus are computed once."""

    closed_form: ClassVar[bool] = False
    """Nothing is minimised: `fit` does all, in place of steps. Such a method is `cached` too."""

    joint: ClassVar[bool] = False
    """A row's two texts are one sequence with a separator between them."""

    classes: tuple[str, ...] = ()
    """The labels of labelled rows, in the order of their numbers."""

    notes: tuple[str, ...] = ()
    """What the run's log should say of how the method was made."""

    @property
    def reads(self) -> type[Row]:
        """What one example is in the sources."""
        return self.rows

    def prepare(self, rows: Iterable[Row], cache: Path | None, say: Callable[[str], None]) -> Iterator[Row]:
        """The rows to tokenise out of those that were read; the same by default.

        Args:
            rows: of the kind `reads`, as they stream.
            cache: a folder for what is costly to derive; None where there is none.
            say: writes a line into the run's log.
        """
        return iter(rows)

    def prompts(self) -> tuple[str | None, ...] | None:
        """A prompt for each text of a row in place of the encoder's own; None leaves that."""
        return None

    def feeds(self) -> Mapping[str, Feed]:
        """Where rows of several kinds make one update: what each is. Then `rows` doesn't count."""
        return {}

    def dev_feeds(self) -> Mapping[str, Feed]:
        """Labelled rows, under "" if there are no others, whose metrics' mean chooses the best step.

        With none, the run's scored pairs do.
        """
        return {}

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """The parameters of the encoder that are trained; all by default."""
        return encoder.parameters()

    @abstractmethod
    def views(self, batch: Batch) -> Sequence[View]:
        """What to encode."""

    @abstractmethod
    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Named scalars, already weighted, whose sum is minimised.

        Args:
            encoded: [N, d] for each of the views, rows in the batch's order.
            batch: the batch the views were made of.
        """

    def adversary(self, encoded: Sequence[Tensor], batch: Batch) -> Tensor:
        """The scalar whose gradient an adversarial view climbs; only methods with such a view have it.

        Args:
            encoded: the vectors of the views that are not adversarial, in their order.
            batch: the batch.
        """
        raise NotImplementedError

    def penalty(self, encoder: Encoder) -> dict[str, Tensor]:
        """Named scalars that depend on the weights alone, already weighted; added once an update."""
        return {}

    def fit(self, vectors: Tensor) -> None:
        """What a method in closed form makes of the pooled vectors [N, d] of the whole text."""
        raise NotImplementedError

    def predict(self, name: str, encoded: Sequence[Tensor]) -> Tensor:
        """What the method says of the rows of a dev feed, from the vectors of its views.

        Returns:
            [N] class numbers or scores.
        """
        raise NotImplementedError
