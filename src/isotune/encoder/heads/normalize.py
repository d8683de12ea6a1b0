"""Scaling of sentence vectors to length 1, as sentence-transformers has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor, nn

from isotune.encoder.heads.head import Head


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
        return nn.functional.normalize(x, dim=-1)
