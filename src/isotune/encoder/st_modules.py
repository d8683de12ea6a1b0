"""isotune's head and poolings as modules of sentence-transformers.

That library imports them by their names in modules.json. So the names `Flow` and
`RegisteredPooling` can't change: saved encoders have them. sentence-transformers wants permission
to import from another library: `SentenceTransformer(folder, trust_remote_code=True)`. To that
library, a module is any `nn.Module` with `load` and `save` that maps features to features; so
nothing of it is imported here.
"""

from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from isotune.data.packed import Packed
from isotune.encoder.format.modules import read_head, write_module
from isotune.encoder.heads import Head, NormalizingFlow
from isotune.encoder.pooling import Pooling
from isotune.files import read_json


class Flow(nn.Module):
    """A normalising flow on the sentence vector, see `isotune.encoder.heads.flow`."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Maps the sentence vector [N, d] among the features."""
        return {**features, "sentence_embedding": self.head(features["sentence_embedding"])}

    def save(self, output_path: str, **_: object) -> None:
        """Writes the head into an existing folder."""
        write_module(Path(output_path), self.head.config(), self.head.state_dict())

    @classmethod
    def load(cls, input_path: str) -> Self:
        """Reads a folder that `save` has written."""
        return cls(read_head(NormalizingFlow, Path(input_path)))


class RegisteredPooling(nn.Module):
    """A pooling that sentence-transformers doesn't have, of isotune or of a plugin.

    The plugin has to be loaded.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        self.pooling = Pooling(config["mode"], tuple(config["layers"]), config.get("weights"))

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Adds the sentence vector [N, d], made of the tokens' states, to the features."""
        mask = features["attention_mask"].bool()  # [N, longest]
        tokens = Packed(features["input_ids"][mask], mask.sum(1).cpu(), torch.arange(len(mask)))
        all_states = features["all_layer_embeddings"]
        states = {layer: all_states[layer][mask] for layer in self.pooling.layers}  # [T, d] each
        return {**features, "sentence_embedding": self.pooling(states, tokens)}

    def save(self, output_path: str, **_: object) -> None:
        """Writes the pooling's name, and the numbers of its layers, into an existing folder."""
        write_module(Path(output_path), self.config, {})

    @classmethod
    def load(cls, input_path: str) -> Self:
        """Reads a folder that `save` has written."""
        return cls(read_json(Path(input_path, "config.json")))
