"""Whitening (Su et al., 2021).

The paper is "Whitening Sentence Representations for Better Semantics and Faster Retrieval".
Whitening is a linear map that gives the vectors of a text mean 0 and the identity as covariance.
Its first features had the largest variance before; keeping only these makes vectors smaller and, in
the paper, often better. The map is the encoder's last head.

A direction without variance becomes a feature that is always 0. Every BERT has such a direction:
its last LayerNorm leaves one.
"""

import torch
from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.encoder.heads.head import CHUNK_VECTORS
from isotune.errors import InputError
from isotune.methods.method import Additions, ClosedForm
from isotune.methods.options import WhiteningOptions


class Whitening(ClosedForm):
    """A linear head whose weights follow from the mean and the covariance of the vectors."""

    options: WhiteningOptions

    def __init__(self, options: WhiteningOptions, encoder: Encoder) -> None:
        """Makes the map, which is added to the encoder.

        Before `fit`, the map keeps the first features unchanged.
        """
        super().__init__(options, encoder)
        d = encoder.dimension
        dimensions = options.dimensions or d
        if dimensions > d:
            raise InputError(
                f"dimensions {dimensions}: the encoder's vectors have {d}; keep that many or fewer"
            )
        head = Dense(d, dimensions, activation="Identity")
        nn.init.eye_(head.linear.weight)
        nn.init.zeros_(head.linear.bias)
        self.adds = Additions(heads=(head,))
        self.dimensions = dimensions

    def check(self, texts: int) -> None:
        """Checks that there are more texts than features to keep."""
        if texts <= self.dimensions:
            raise InputError(
                f"{self.dimensions} dimensions: there are {texts} sentences, and more "
                "of them than dimensions are needed; give more text, or keep fewer dimensions"
            )

    def fit(self, encoder: Encoder, vectors: Tensor) -> None:
        """Computes the map from the pooled vectors [N, d] of the text, after the earlier heads."""
        *_, head = encoder.heads
        features = encoder.heads.before_last(vectors)  # [N, d]
        head.load_state_dict(self.map_of(features, encoder.dimension).state_dict())

    def map_of(self, vectors: Tensor, dimensions: int) -> Dense:
        """The map of vectors [N, d] to as many dimensions."""
        return whitening(vectors, dimensions)


def whitening(vectors: Tensor, dimensions: int | None = None) -> Dense:
    """Computes the map x -> (x - mean) U diag(s^(-1 / 2)) from vectors [N, d].

    U diag(s) U^T is the covariance of the vectors. The map has d features of input and `dimensions`
    of output; None keeps all.
    """
    n, d = vectors.shape
    dimensions = dimensions or d
    sums = [chunk.double().sum(0) for chunk in vectors.split(CHUNK_VECTORS)]
    mean = torch.stack(sums).sum(0) / n  # [d]
    # The variances, largest first, and the directions.
    _, s, ut = torch.linalg.svd(second_moments(vectors, mean))  # [d], [d, d]
    # A variance below the rounding of float32 vectors is no variance.
    varies = s > s[0] * d * torch.finfo(torch.float32).eps ** 2  # [d]
    head = Dense(d, dimensions, activation="Identity")
    scales = torch.where(varies, s**-0.5, 0.0)  # [d]
    weight = ut[:dimensions] * scales[:dimensions, None]  # [dimensions, d]
    with torch.no_grad():
        head.linear.weight.copy_(weight)
        head.linear.bias.copy_(-weight @ mean)
    return head


def second_moments(vectors: Tensor, centre: Tensor | float = 0.0) -> Tensor:
    """The mean [d, d] of (x - centre)^T (x - centre) over vectors [N, d], in float64."""
    d = vectors.shape[1]
    total = torch.zeros(d, d, dtype=torch.float64)
    for chunk in vectors.split(CHUNK_VECTORS):
        centred = chunk.double() - centre
        total += centred.T @ centred
    return total / len(vectors)
