"""PCA: the features of the vectors become the directions in which a text varies most.

The map turns the vectors of an encoder, so that their first features have the largest variance over
the text. Turning changes no cosine; the first features alone are smaller vectors, which lose less
than the first features of the encoder itself. The map is the encoder's last head, a linear layer.
It has no bias, as in sentence-transformers' example of dimensionality reduction: the directions are
those of the covariance, and the mean of the vectors stays in them.
"""

import torch
from torch import Tensor

from isotune.encoder.heads import Dense
from isotune.methods.options import PCAOptions
from isotune.methods.whitening import Whitening, directions


class PCA(Whitening):
    """A linear head whose weights are the leading directions of the vectors."""

    options: PCAOptions
    # A cut loses a little of the score, which is its price.
    keeps_last = True

    def map_of(self, vectors: Tensor, dimensions: int) -> Dense:
        """The map to these directions of vectors [N, d]."""
        return leading_directions(vectors, dimensions)


def leading_directions(vectors: Tensor, dimensions: int | None = None) -> Dense:
    """Computes the map x -> x U from vectors [N, d].

    U diag(s) U^T is the covariance of the vectors, the largest variance first. The map has d
    features of input and `dimensions` of output; None keeps all.
    """
    d = vectors.shape[1]
    dimensions = dimensions or d
    _, _, ut = directions(vectors)
    head = Dense(d, dimensions, activation="Identity")
    with torch.no_grad():
        head.linear.weight.copy_(ut[:dimensions])
        head.linear.bias.zero_()
    return head
