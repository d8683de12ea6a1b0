"""Heads: what all of them have in common, the heads of an encoder in order, and those of sentence-transformers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from isotune.errors import InputError

CHUNK_VECTORS = 8192  # vectors that are multiplied at once: half a second at 1,024 features, so that Ctrl-C is heard


class Head(nn.Module):
    """A layer on sentence vectors, [N, d] -> [N, d']. Its `state_dict` is what is saved as its weights."""

    type_name: ClassVar[str]
    """The class that modules.json names, for sentence-transformers to import; its last part names the head's folder."""

    dimensions: tuple[int, int] | None = None
    """Features of the input and of the output; None for a head that takes any number and keeps it."""

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
        return iter(head for head in self._modules.values() if isinstance(head, Head))

    @property
    def dimension(self) -> int:
        """Features of the last head's output."""
        sizes = [head.dimensions[1] for head in self if head.dimensions]
        return sizes[-1] if sizes else self.features

    @torch.no_grad()
    def before_last(self, vectors: Tensor) -> Tensor:
        """Pooled vectors [N, d] of any number -> [N, d'] on the CPU, after all heads but the last."""
        device = next((weight.device for weight in self.parameters()), vectors.device)
        before = self.first(len(self) - 1)
        return torch.cat([before(chunk.to(device)).cpu() for chunk in vectors.split(CHUNK_VECTORS)])

    def first(self, count: int) -> "Heads":
        """The first heads, which share their weights with these."""
        return Heads(self.features, list(self)[:count])


class Dense(Head):
    """A linear layer and an activation: [N, in_features] -> [N, out_features]."""

    type_name = (
        "sentence_transformers.models.Dense"  # known to every release of sentence-transformers
    )

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, activation: str = "Tanh"
    ) -> None:
        """Makes a layer with new weights; `activation` names a class of torch.nn."""
        super().__init__()
        if activation not in nn.modules.activation.__all__ and activation != "Identity":
            raise InputError(
                f"activation {activation!r} of a Dense head: only the activations of torch.nn are loaded"
            )
        if min(in_features, out_features) < 1:
            raise InputError(
                f"a Dense head with {in_features} features in and {out_features} out: give 1 or more"
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
        if (
            config.get("use_residual")
            or config.get("module_input_name", "sentence_embedding") != "sentence_embedding"
        ):
            raise InputError("a Dense head with a residual or on tokens is not supported")
        name = config["activation_function"]
        path, _, activation = ("torch.nn.Identity" if name is None else name).rpartition(".")
        activation = (
            activation if path.startswith("torch.nn") else f"{path}.{activation}"
        )  # which is refused
        return cls(
            config["in_features"], config["out_features"], config.get("bias", True), activation
        )

    def forward(self, x: Tensor) -> Tensor:
        """[N, in_features] -> [N, out_features]."""
        return self.activation(self.linear(x))


class Normalize(Head):
    """Scales every vector to length 1."""

    type_name = (
        "sentence_transformers.models.Normalize"  # known to every release of sentence-transformers
    )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Makes the head; whatever a release of sentence-transformers writes into its config.json changes nothing."""
        return cls()

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        return nn.functional.normalize(x, dim=-1)
