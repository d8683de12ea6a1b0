"""Layers on top of the pooled vector that stay with the encoder; sentence-transformers has each of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isotune.errors import InputError


class Dense(nn.Module):
    """A linear layer and an activation: [N, in_features] -> [N, out_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, activation: str = "Tanh") -> None:
        """`activation` names a class of torch.nn."""
        super().__init__()
        if activation not in nn.modules.activation.__all__ and activation != "Identity":
            raise InputError(f"activation {activation!r} of a Dense head: only the activations of torch.nn are loaded")
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation: nn.Module = getattr(nn, activation)()

    def forward(self, x: Tensor) -> Tensor:
        """[N, in_features] -> [N, out_features]."""
        result: Tensor = self.activation(self.linear(x))
        return result


class Normalize(nn.Module):
    """Scales every vector to length 1."""

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        return torch.nn.functional.normalize(x, dim=-1)
