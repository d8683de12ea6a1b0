"""What all heads have in common, the heads of an encoder, and those of sentence-transformers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from isotune.errors import InputError

# Vectors that are multiplied at once: they take half a second at 1,024 features, so that Ctrl-C is
# heard.
CHUNK_VECTORS = 8192


class Head(nn.Module):
    """A layer on sentence vectors, [N, d] -> [N, d'].

    Its `state_dict` is what is saved as its weights.
    """

    type_name: ClassVar[str]
    """The class that modules.json names, for sentence-transformers to import; its last part names
    the head's folder."""

    dimensions: tuple[int, int] | None = None
    """Features of the input and of the output; None for a head that takes any number and keeps
    it."""

    def config(self) -> dict[str, Any]:
        """The settings for the head's config.json."""
        return {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Makes the head that a config.json describes, with new weights."""
        return cls(**config)


class Heads(nn.Sequential):
    """The heads of an encoder; each takes the output of the one before."""

    def __init__(self, features: int, heads: Iterable[Head]) -> None:
        super().__init__()
        self.features = features
        for head in heads:
            takes, _ = head.dimensions or (self.dimension, self.dimension)
            if takes != self.dimension:
                raise InputError(
                    f"a {type(head).__name__} head takes {takes} features and gets {self.dimension}"
                )
            self.append(head)

    def __iter__(self) -> Iterator[Head]:
        for head in self._modules.values():
            if isinstance(head, Head):
                yield head

    @property
    def dimension(self) -> int:
        """Features of the last head's output."""
        size = self.features
        for head in self:
            if head.dimensions:
                size = head.dimensions[1]
        return size

    @torch.no_grad()
    def before_last(self, vectors: Tensor) -> Tensor:
        """Puts pooled vectors through all heads but the last: [N, d] -> [N, d'] on the CPU.

        N may be any number.
        """
        device = next((weight.device for weight in self.parameters()), vectors.device)
        before = self.first(len(self) - 1)
        return torch.cat([before(chunk.to(device)).cpu() for chunk in vectors.split(CHUNK_VECTORS)])

    def first(self, count: int) -> "Heads":
        """The first heads, which share their weights with these."""
        return Heads(self.features, list(self)[:count])


class Dense(Head):
    """A linear layer and an activation: [N, in_features] -> [N, out_features]."""

    # Every release of sentence-transformers knows this name.
    type_name = "sentence_transformers.models.Dense"

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, activation: str = "Tanh"
    ) -> None:
        """Makes a layer with new weights; `activation` names a class of torch.nn."""
        super().__init__()
        if activation not in nn.modules.activation.__all__ and activation != "Identity":
            raise InputError(
                f"activation {activation!r} of a Dense head: only the activations of torch.nn are "
                "loaded"
            )
        if min(in_features, out_features) < 1:
            raise InputError(
                f"a Dense head with {in_features} features in and {out_features} out: give 1 or "
                "more"
            )
        self.dimensions = in_features, out_features
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation: nn.Module = getattr(nn, activation)()

    def config(self) -> dict[str, Any]:
        """The sizes and the activation, as sentence-transformers writes them."""
        activation = type(self.activation)
        return {
            "in_features": self.linear.in_features,
            "out_features": self.linear.out_features,
            "bias": self.linear.bias is not None,
            "activation_function": f"{activation.__module__}.{activation.__name__}",
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Makes a layer of the configured sizes, with new weights."""
        source = config.get("module_input_name", "sentence_embedding")
        if config.get("use_residual") or source != "sentence_embedding":
            raise InputError("a Dense head with a residual or on tokens is not supported")
        name = config["activation_function"]
        if name is None:
            name = "torch.nn.Identity"
        path, _, activation = name.rpartition(".")
        if not path.startswith("torch.nn"):
            # The constructor refuses the whole name.
            activation = f"{path}.{activation}"
        return cls(
            config["in_features"], config["out_features"], config.get("bias", True), activation
        )

    def forward(self, x: Tensor) -> Tensor:
        """[N, in_features] -> [N, out_features]."""
        return self.activation(self.linear(x))


class Normalize(Head):
    """Scales every vector to length 1."""

    # Every release of sentence-transformers knows this name.
    type_name = "sentence_transformers.models.Normalize"

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Makes the head.

        Whatever a release of sentence-transformers writes into its config.json changes nothing.
        """
        return cls()

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        return nn.functional.normalize(x, dim=-1)
