"""Layers on top of the pooled vector that stay with the encoder and are saved in its folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

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


class Dense(Head):
    """A linear layer and an activation: [N, in_features] -> [N, out_features]."""

    # The name that every release of sentence-transformers understands, here and below.
    type_name = "sentence_transformers.models.Dense"

    def __init__(self, in_features: int, out_features: int, bias: bool = True, activation: str = "Tanh") -> None:
        """`activation` names a class of torch.nn."""
        super().__init__()
        if activation not in nn.modules.activation.__all__ and activation != "Identity":
            raise InputError(f"activation {activation!r} of a Dense head: only the activations of torch.nn are loaded")
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation: nn.Module = getattr(nn, activation)()

    @property
    def dimensions(self) -> tuple[int, int]:
        """in_features and out_features."""
        return self.linear.in_features, self.linear.out_features

    def config(self) -> dict[str, Any]:
        """Sizes and the activation."""
        activation = type(self.activation)
        return {
            "in_features": self.linear.in_features,
            "out_features": self.linear.out_features,
            "bias": self.linear.bias is not None,
            "activation_function": f"{activation.__module__}.{activation.__name__}",
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """A new layer of these sizes.

        Raises:
            InputError: it has a residual or is for tokens.
        """
        if config.get("use_residual") or config.get("module_input_name", "sentence_embedding") != "sentence_embedding":
            raise InputError("a Dense head with a residual or on tokens is not known here")
        activation = config["activation_function"].rpartition(".")[2]
        return cls(config["in_features"], config["out_features"], config.get("bias", True), activation)

    def forward(self, x: Tensor) -> Tensor:
        """[N, in_features] -> [N, out_features]."""
        result: Tensor = self.activation(self.linear(x))
        return result


class Normalize(Head):
    """Scales every vector to length 1."""

    type_name = "sentence_transformers.models.Normalize"

    def config(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """It has no settings."""
        return cls()

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        return torch.nn.functional.normalize(x, dim=-1)


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
