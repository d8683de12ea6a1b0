"""Scaling of sentence vectors to length 1, as sentence-transformers has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor, nn

from isotune.encoder.heads.head import Head


class Normalize(Head):
    """Scales every vector to length 1."""

    type_name = "sentence_transformers.models.Normalize"  # known to every release of sentence-transformers

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Makes the head; whatever a release of sentence-transformers writes into its config.json changes nothing."""
        return cls()

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, d]."""
        return nn.functional.normalize(x, dim=-1)
