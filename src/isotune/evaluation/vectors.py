"""Sentence vectors for a task: each distinct sentence is encoded once, and every value must be finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.errors import UselessVectors


class SentenceEncoder(Protocol):
    """Anything that turns sentences into vectors: an `Encoder`, a `SentenceTransformer`, a class of your own."""

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.floating[Any]]:
        """Returns the vectors [N, d] of N sentences, in the order of the sentences."""
        ...


def sentence_vectors(encoder: SentenceEncoder, sentences: Sequence[str], task: str) -> NDArray[np.floating[Any]]:
    """Returns the vectors [N, d] of N sentences, in the order of the sentences and the encoder's own precision.

    Raises:
        UselessVectors: a vector has a value that is not finite; the message names `task`.
    """
    place = {sentence: i for i, sentence in enumerate(dict.fromkeys(sentences))}
    vectors = np.asarray(encoder.encode(list(place)))  # [distinct, d]
    if not np.isfinite(vectors).all():
        raise UselessVectors(f"{task}: the encoder gives vectors with NaN or infinite values; its weights are damaged")
    if len(place) == len(sentences):
        return vectors
    return vectors[[place[sentence] for sentence in sentences]]


def unit_length(vectors: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Returns the vectors [N, d] scaled to length 1; a vector of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)  # [N, 1]
    scaled: NDArray[np.floating[Any]] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled


def to_encoder_device(vectors: NDArray[np.floating[Any]], encoder: SentenceEncoder) -> Tensor:
    """Returns the vectors [N, d] as float32 on the encoder's device, or on the CPU if the encoder names no device."""
    return torch.tensor(vectors, dtype=torch.float32, device=getattr(encoder, "device", "cpu"))
