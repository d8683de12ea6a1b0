"""Whitening ("Whitening Sentence Representations for Better Semantics and Faster Retrieval", Su et al., 2021).

Whitening is a linear map that gives the vectors of a text mean 0 and the identity as covariance. Its first features
had the largest variance before; keeping only these makes vectors smaller and, in the paper, often better.

A direction without variance becomes a feature that is always 0. Every BERT has such a direction: its last LayerNorm
leaves one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from isotune.encoder.heads.head import CHUNK_VECTORS, Dense
from isotune.errors import InputError


def whitening(vectors: Tensor, dimensions: int | None = None) -> Dense:
    """Computes the map x -> (x - mean) U diag(s^(-1 / 2)), where U diag(s) U^T is the vectors' covariance.

    The head for vectors [N, d] has d features of input and `dimensions` of output; None keeps all.

    Raises:
        InputError: the vectors have fewer features than `dimensions`, or there are not more vectors than that.
    """
    n, d = vectors.shape
    kept = d if dimensions is None else dimensions
    if not 1 <= kept <= d or n <= (dimensions or 1):
        raise InputError(
            f"whitening to {kept} dimensions: there are {n} vectors of {d} features, and it takes more "
            "vectors than dimensions; keep fewer, or give more text"
        )
    mean = torch.stack([x.double().sum(0) for x in vectors.split(CHUNK_VECTORS)]).sum(0) / n  # [d]
    _, s, ut = torch.linalg.svd(second_moments(vectors, mean))  # [d], largest first; [d, d]
    # A variance below the rounding of float32 vectors is no variance.
    varies = s > s[0] * d * torch.finfo(torch.float32).eps ** 2  # [d]
    head = Dense(d, kept, activation="Identity")
    weight = ut[:kept] * torch.where(varies, s**-0.5, 0.0)[:kept, None]  # [kept, d]
    with torch.no_grad():
        head.linear.weight.copy_(weight)
        head.linear.bias.copy_(-weight @ mean)
    return head


def second_moments(vectors: Tensor, centre: Tensor | float = 0.0) -> Tensor:
    """The mean of (x - centre)^T (x - centre) over vectors [N, d], some at a time: [d, d] float64."""
    d = vectors.shape[1]
    total = torch.zeros(d, d, dtype=torch.float64)
    for x in vectors.split(CHUNK_VECTORS):
        total += (x.double() - centre).T @ (x.double() - centre)
    return total / len(vectors)
