"""PCA: the features of the vectors become the leading directions of a text.

The map turns the vectors of an encoder, so that the first features hold as much of their length as
possible over the text. Turning changes no cosine. The first features alone are smaller vectors, and
those of this number that are nearest to the vectors (Eckart and Young, 1936). The map is the
encoder's last head, a linear layer without bias, as in sentence-transformers' example of
dimensionality reduction. There the directions are those of the centred vectors; here they are those
of the vectors as cosines compare them, around 0.
"""

import torch
from torch import Tensor

from isotune.encoder.heads import Dense
from isotune.methods.options import PCAOptions
from isotune.methods.whitening import Whitening, second_moments


class PCA(Whitening):
    """A linear head whose weights are the leading directions of the vectors."""

    options: PCAOptions

    def map_of(self, vectors: Tensor, dimensions: int) -> Dense:
        """The map to so many directions of vectors [N, d]."""
        return leading_directions(vectors, dimensions)


def leading_directions(vectors: Tensor, dimensions: int | None = None) -> Dense:
    """Computes the map x -> x U from vectors [N, d].

    U diag(s) U^T is the mean of x^T x over the vectors, the largest s first. The map has d features
    of input and `dimensions` of output; None keeps all.
    """
    d = vectors.shape[1]
    dimensions = dimensions or d
    _, _, ut = torch.linalg.svd(second_moments(vectors))  # [d, d]
    head = Dense(d, dimensions, activation="Identity")
    with torch.no_grad():
        head.linear.weight.copy_(ut[:dimensions])
        head.linear.bias.zero_()
    return head
