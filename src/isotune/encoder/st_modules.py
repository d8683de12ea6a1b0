"""Heads of ours as modules of sentence-transformers, which imports them by the names in modules.json.

It asks for leave to import what isn't its own: `SentenceTransformer(folder, trust_remote_code=True)`. A module there is
any `nn.Module` that maps features to features, with `load` and `save`, so nothing of that library is needed here.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from isotune.encoder import flow
from isotune.encoder.heads import Head
from isotune.encoder.modules import read_head, write_head


class Flow(nn.Module):
    """A normalising flow on the sentence vector, see `isotune.encoder.flow`."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """The features, with the sentence vector [N, d] mapped."""
        return {**features, "sentence_embedding": self.head(features["sentence_embedding"])}

    def save(self, output_path: str, **_: object) -> None:
        """Writes the head into a folder."""
        write_head(self.head, Path(output_path))

    @classmethod
    def load(cls, input_path: str) -> Flow:
        """Reads what `save` wrote."""
        return cls(read_head(flow.Flow, Path(input_path)))
