"""A linear layer with an activation, as sentence-transformers has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor, nn

from isotune.encoder.heads.head import Head
from isotune.errors import InputError


class Dense(Head):
    """A linear layer and an activation: [N, in_features] -> [N, out_features]."""

    type_name = "sentence_transformers.models.Dense"  # known to every release of sentence-transformers

    def __init__(self, in_features: int, out_features: int, bias: bool = True, activation: str = "Tanh") -> None:
        """Makes a layer with new weights; `activation` names a class of torch.nn."""
        super().__init__()
        if activation not in nn.modules.activation.__all__ and activation != "Identity":
            raise InputError(f"activation {activation!r} of a Dense head: only the activations of torch.nn are loaded")
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation: nn.Module = getattr(nn, activation)()

    @property
    def dimensions(self) -> tuple[int, int]:
        """Features of the input and of the output."""
        return self.linear.in_features, self.linear.out_features

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
        """Makes a layer of the configured sizes, with new weights.

        Raises:
            InputError: the layer has a residual connection or works on tokens.
        """
        if config.get("use_residual") or config.get("module_input_name", "sentence_embedding") != "sentence_embedding":
            raise InputError("a Dense head with a residual or on tokens is not supported")
        activation = config["activation_function"].rpartition(".")[2]
        return cls(config["in_features"], config["out_features"], config.get("bias", True), activation)

    def forward(self, x: Tensor) -> Tensor:
        """[N, in_features] -> [N, out_features]."""
        result: Tensor = self.activation(self.linear(x))
        return result
