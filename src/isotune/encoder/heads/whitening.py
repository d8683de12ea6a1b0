"""Whitening ("Whitening Sentence Representations for Better Semantics and Faster Retrieval", Su et al., 2021).

A linear map after which the vectors of a text have mean 0 and the identity as covariance, so that a cosine is taken
along orthonormal axes. Its first features are those of the largest variance before; keeping them alone makes vectors
smaller, and in the paper often better.

A direction without any variance, such as the one that a last LayerNorm leaves in every BERT, becomes a feature that is
always 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from isotune.encoder.heads.dense import Dense
from isotune.errors import InputError

CHUNK_VECTORS = 65_536


def whitening(vectors: Tensor, dimensions: int | None = None) -> Dense:
    """The map x -> (x - mean) U diag(1 / sqrt(s)), with U diag(s) U^T the covariance of the vectors.

    Args:
        vectors: [N, d], of text like that which it is for.
        dimensions: how many features are kept; all if None, of which those that never vary become 0.

    Returns:
        A head that takes d features and gives `dimensions`.

    Raises:
        InputError: they don't have that many features, or there are not more vectors than that.
    """
    n, d = vectors.shape
    kept = d if dimensions is None else dimensions
    if not 1 <= kept <= d or n <= (dimensions or 1):
        raise InputError(
            f"whitening to {kept} dimensions: there are {n} vectors of {d} features, and it takes more "
            "vectors than dimensions; keep fewer, or give more text"
        )
    # Both sums in float64, a part of the vectors at a time.
    mean = torch.stack([x.double().sum(0) for x in vectors.split(CHUNK_VECTORS)]).sum(0) / n  # [d]
    covariance = torch.zeros(d, d, dtype=torch.float64)
    for x in vectors.split(CHUNK_VECTORS):
        covariance += (x.double() - mean).T @ (x.double() - mean) / n
    _, s, ut = torch.linalg.svd(covariance)  # [d], largest first; [d, d]
    # What is smaller than the rounding of float32 vectors is none of their variance.
    varies = s > s[0] * d * torch.finfo(torch.float32).eps ** 2  # [d]
    head = Dense(d, kept, activation="Identity")
    weight = ut[:kept] * torch.where(varies, s.rsqrt(), 0.0)[:kept, None]  # [kept, d]
    with torch.no_grad():
        head.linear.weight.copy_(weight)
        head.linear.bias.copy_(-weight @ mean)
    return head
