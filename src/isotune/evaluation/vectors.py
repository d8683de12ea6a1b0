"""What every task asks of an encoder: finite vectors, each distinct sentence encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.errors import InputError


class SentenceEncoder(Protocol):
    """Anything that turns sentences into vectors."""

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.floating[Any]]:
        """Vectors [N, d] of N sentences, in their order."""
        ...


def sentence_vectors(encoder: SentenceEncoder, sentences: Sequence[str], task: str) -> NDArray[np.floating[Any]]:
    """Vectors [N, d] of N sentences, in their order and the encoder's own precision.

    Raises:
        InputError: the encoder gives a vector with a value that is not finite; `task` is named.
    """
    place = {sentence: i for i, sentence in enumerate(dict.fromkeys(sentences))}
    vectors = np.asarray(encoder.encode(list(place)))  # [distinct, d]
    if not np.isfinite(vectors).all():
        raise InputError(f"{task}: the encoder gives vectors with NaN or infinite values; its weights are damaged")
    if len(place) == len(sentences):
        return vectors
    return vectors[[place[sentence] for sentence in sentences]]


def on_its_device(vectors: NDArray[np.floating[Any]], encoder: SentenceEncoder) -> Tensor:
    """Vectors [N, d] as float32, where the encoder computes if it says so, and else on the CPU."""
    return torch.tensor(vectors, dtype=torch.float32, device=getattr(encoder, "device", "cpu"))
