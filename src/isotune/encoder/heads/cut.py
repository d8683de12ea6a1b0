"""The cut of vectors to their first features.

An encoder that was trained for it (Matryoshka, Kusupati et al. 2022), or whose features are in the
order of their variance (PCA), loses little by a cut.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.encoder.heads.head import Head, Heads
from isotune.errors import InputError

# The setting of sentence-transformers, whose encoders cut vectors after all modules.
TRUNCATE_DIM = "truncate_dim"


class Cut(Head):
    """Keeps the first features: [N, d] -> [N, kept]. It is the last head, and not scaled.

    An encoder's folder has it as a setting, and not as a module.
    """

    type_name = f"sentence_transformers.{TRUNCATE_DIM}"

    def __init__(self, features: int, kept: int) -> None:
        super().__init__()
        self.dimensions = features, kept
        self.kept = kept

    def config(self) -> dict[str, Any]:
        """The setting in config_sentence_transformers.json."""
        return {TRUNCATE_DIM: self.kept}

    def forward(self, x: Tensor) -> Tensor:
        """[N, d] -> [N, kept]."""
        return x[..., : self.kept]


def cut(heads: Heads, dimensions: int) -> Heads:
    """The heads with a cut to this many features, in place of the cut that they may have.

    Raises:
        InputError: the vectors have fewer features, or this is no whole number.
    """
    whole = heads.first(len(heads))
    if is_cut(heads):
        whole = heads.first(len(heads) - 1)
    if type(dimensions) is not int or not 1 <= dimensions <= whole.dimension:
        raise InputError(
            f"dimensions {dimensions!r:.50}: the encoder's vectors have {whole.dimension} "
            f"features; give a whole number from 1 to {whole.dimension}"
        )
    if dimensions < whole.dimension:
        whole.append(Cut(whole.dimension, dimensions))
    return whole


def is_cut(heads: Heads) -> bool:
    """Whether the last head is a cut."""
    return len(heads) > 0 and isinstance(heads[-1], Cut)


def cut_units(vectors: NDArray[np.float32], dimensions: int) -> NDArray[np.float32]:
    """The first features of vectors [N, d] of length 1, scaled to length 1: [N, dimensions]."""
    if dimensions == vectors.shape[1]:
        return vectors
    first = torch.from_numpy(vectors[:, :dimensions])
    units: NDArray[np.float32] = torch.nn.functional.normalize(first, dim=-1).numpy()
    return units
