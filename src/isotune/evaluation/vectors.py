"""Sentence vectors for a task.

Each distinct sentence is encoded once, and every value must be finite.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.errors import UselessVectors
from isotune.kernels.cpu.float32 import fast_float32
from isotune.kernels.device import has_float64

Floats = NDArray[np.floating[Any]]

NO_ROWS: Floats = np.empty(0)
"""The values of a task whose score is not over rows."""

PRODUCTS = 2**24
"""The cosines that are held at a time, which take 67 MB; but those of `QUERIES` at least."""

QUERIES = 64
"""The queries that are compared at a time at least: with a million vectors, this takes 256 MB."""


class SentenceEncoder(Protocol):
    """Anything that turns sentences into vectors.

    It may be an `Encoder`, a `SentenceTransformer`, or a class of your own.
    """

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.floating[Any]]:
        """The vectors [N, d] of N sentences, in the order of the sentences."""
        ...


class SearchEncoder(SentenceEncoder, Protocol):
    """An encoder that may have one prompt for questions, and another for documents."""

    def encode_query(self, sentences: Sequence[str], /) -> NDArray[np.floating[Any]]:
        """The vectors [N, d] of N questions, in their order."""
        ...

    def encode_document(self, sentences: Sequence[str], /) -> NDArray[np.floating[Any]]:
        """The vectors [N, d] of N documents, in their order."""
        ...


def sentence_vectors(
    encode: Callable[[Sequence[str]], Any], sentences: Sequence[str], task: str
) -> NDArray[np.floating[Any]]:
    """The vectors [N, d] of N sentences, in the encoder's own precision.

    Refuses values that are not finite.
    """
    distinct = list(dict.fromkeys(sentences))
    vectors = np.asarray(encode(distinct))  # [distinct, d]
    if not np.isfinite(vectors).all():
        raise UselessVectors(
            f"{task}: the encoder gives vectors with NaN or infinite values; "
            "load it with another precision, or take another encoder"
        )
    if len(distinct) == len(sentences):
        return vectors
    places = {sentence: place for place, sentence in enumerate(distinct)}
    return vectors[[places[sentence] for sentence in sentences]]


def unit_length(vectors: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The vectors [N, d] scaled to length 1; a vector of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)  # [N, 1]
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


@torch.no_grad()
def nearest(queries: Floats, vectors: Floats, k: int) -> tuple[Floats, NDArray[np.int64]]:
    """The k largest cosines [N, k] of queries [N, d] with vectors [M, d], and the vectors' numbers.

    All queries and vectors have length 1.

    There are M columns if M is less than k. Of equally near vectors, an earlier one is first.
    """
    k = min(k, len(vectors))
    block_size = max(QUERIES, PRODUCTS // max(1, len(vectors)))
    cosine_blocks = []
    number_blocks = []
    for block in torch.from_numpy(queries).split(block_size):
        with fast_float32():
            products = block @ torch.from_numpy(vectors).T  # [n, M]
        # A row has k vectors that are near enough, and more where cosines are equal.
        near = products >= products.topk(k).values[:, -1:]
        cosines = products[near].numpy()
        query, number = near.numpy().nonzero()
        order = np.lexsort((-cosines, query))
        starts = np.searchsorted(query, np.arange(len(block)))  # [n]
        first = order[starts[:, None] + np.arange(k)]  # [n, k]
        cosine_blocks.append(cosines[first])
        number_blocks.append(number[first])
    return np.concatenate(cosine_blocks), np.concatenate(number_blocks)


def to_float64_device(vectors: NDArray[np.floating[Any]], encoder: SentenceEncoder) -> Tensor:
    """The vectors [N, d] as float32, on the encoder's device if it computes in float64."""
    device = getattr(encoder, "device", "cpu")
    if not has_float64(device):
        device = "cpu"
    return torch.tensor(vectors, dtype=torch.float32, device=device)
