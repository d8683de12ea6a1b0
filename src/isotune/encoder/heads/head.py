"""Layers on top of the pooled vector that stay with the encoder and are saved in its folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from torch import nn

from isotune.errors import InputError


class Head(nn.Module, ABC):
    """A layer on sentence vectors. Its class's name is that of its folder; its weights are its state_dict."""

    type_name: ClassVar[str]
    """The class that sentence-transformers imports for it, as modules.json names it."""

    @property
    def dimensions(self) -> tuple[int, int] | None:
        """Features of what goes in and of what comes out; None if any number goes in and the same comes out."""
        return None

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """What its config.json says."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The head that a config.json describes, before its weights are read.

        Raises:
            InputError: it says something that can't be honoured here.
        """


class Heads(nn.Sequential):
    """The heads of an encoder, each on what the one before gives."""

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
        """Features of what the last one gives."""
        sizes = [head.dimensions[1] for head in self if head.dimensions]
        return sizes[-1] if sizes else self.features

    def drop_last(self, count: int) -> None:
        """Takes the last ones away."""
        del self[len(self) - count :]

    @contextmanager
    def without_last(self, count: int) -> Iterator[None]:
        """Within it, the last ones are not there."""
        last = list(self)[len(self) - count :]
        self.drop_last(count)
        try:
            yield
        finally:
            self.extend(last)
