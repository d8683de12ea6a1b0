"""What all heads have in common, and the heads of an encoder in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from torch import nn

from isotune.errors import InputError


class Head(nn.Module):
    """A layer on sentence vectors, [N, d] -> [N, d']. Its `state_dict` is what is saved as its weights."""

    type_name: ClassVar[str]
    """The class that modules.json names, for sentence-transformers to import; its last part names the head's folder."""

    @property
    def dimensions(self) -> tuple[int, int] | None:
        """Features of the input and of the output; None for a head that takes any number and keeps it."""
        return None

    def config(self) -> dict[str, Any]:
        """The settings for the head's config.json."""
        return {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Makes the head that a config.json describes, with new weights.

        Raises:
            InputError: the settings ask for something that is not supported.
        """
        return cls(**config)


class Heads(nn.Sequential):
    """The heads of an encoder; each takes the output of the one before."""

    def __init__(self, features: int, heads: Iterable[Head]) -> None:
        """Takes the features of the pooled vector, and the heads in order.

        Raises:
            InputError: a head takes another number of features than it gets.
        """
        super().__init__()
        self.features = features
        for head in heads:
            takes, _ = head.dimensions or (self.dimension, self.dimension)
            if takes != self.dimension:
                raise InputError(f"a {type(head).__name__} head takes {takes} features and gets {self.dimension}")
            self.append(head)

    def __iter__(self) -> Iterator[Head]:
        return iter(head for head in self._modules.values() if isinstance(head, Head))

    @property
    def dimension(self) -> int:
        """Features of the last head's output."""
        sizes = [head.dimensions[1] for head in self if head.dimensions]
        return sizes[-1] if sizes else self.features

    def drop_last(self, count: int) -> None:
        """Removes the last heads."""
        del self[len(self) - count :]

    @contextmanager
    def without_last(self, count: int) -> Iterator[None]:
        """Removes the last heads for a `with` block."""
        last = list(self)[len(self) - count :]
        self.drop_last(count)
        try:
            yield
        finally:
            self.extend(last)
