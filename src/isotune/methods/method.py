"""What a method is: which views of a batch to encode, and what to make of the vectors. Nothing else.

Between the two calls stands the trainer, which encodes the views, those of one pooling in one forward pass. A method
never calls the encoder, so how that is done is never its concern.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor, nn

from isotune.data.packed import Packed
from isotune.data.rows import Row
from isotune.encoder.pooling import Pooling
from isotune.views.augmentation import Augmentation, NoAugmentation


@dataclass(frozen=True, eq=False)
class Batch:
    """The tokens of N rows.

    Attributes:
        texts: a packed batch of N sentences for each text of a row (one for sentences, two for pairs).
    """

    texts: tuple[Packed, ...]


@dataclass(frozen=True, eq=False)
class View:
    """N sentences to encode.

    Attributes:
        tokens: the sentences.
        augmentation: how they are changed in the embedding layer.
        pooling: takes the place of the encoder's own.
    """

    tokens: Packed
    augmentation: Augmentation = field(default_factory=NoAugmentation)
    pooling: Pooling | None = None


class Method(nn.Module, ABC):
    """A training objective. Its parameters, if it has any, are trained and then dropped."""

    rows: ClassVar[type[Row]]
    """What one example is."""

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
