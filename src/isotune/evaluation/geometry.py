"""How sentence vectors lie in their space.

All measures are of vectors scaled to length 1, since cosines are what encoders are used for. They are exact: of all
vectors and all pairs of them, in parts, so that what is held beside the vectors is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import normalize

ROWS = 1024
"""Vectors taken at once, so that what is made of them, or of them and as many others, stays in the caches."""


def alignment(first: Tensor, second: Tensor) -> float:
    """The mean squared distance between the vectors [N, d] of N positive pairs; lower is better.

    Wang and Isola, "Understanding contrastive representation learning through alignment and uniformity on the
    hypersphere" (2020), with alpha = 2.
    """
    squared = (normalize(first, dim=-1) - normalize(second, dim=-1)).square().sum(-1)  # [N]
    return float(squared.mean(dtype=torch.float64))


def uniformity(vectors: Tensor) -> float:
    """The log of the mean of exp(-2 D^2) over the distances D of all pairs of rows of [N, d]; lower is better.

    Wang and Isola (2020), with t = 2. From 0, where all are the same, down to about -4.
    """
    blocks, total = normalize(vectors, dim=-1).split(ROWS), 0.0
    for i, rows in enumerate(blocks):
        for j, others in enumerate(blocks[i:]):
            kernel = (rows @ others.T).sub_(1).mul_(4).exp_()  # of unit vectors, D^2 is 2 - 2 cos
            total += float((kernel if j else kernel.triu_(1)).sum(dtype=torch.float64))
    n = len(vectors)
    return math.log(total / (n * (n - 1) / 2))


def mean_cosine(vectors: Tensor) -> float:
    """The mean cosine between different vectors of [N, d]; 1 means that all point the same way."""
    total = normalize(vectors, dim=-1).sum(0, dtype=torch.float64)  # [d]
    n = len(vectors)
    # The sum over all pairs is the squared length of the sum; the diagonal's N ones are taken off.
    return float((total.square().sum() - n) / (n * (n - 1)))


def isotropy(vectors: Tensor) -> float:
    """How evenly the vectors [N, d] point to all sides: least through greatest Z(c), the sum of exp(c . x) over them.

    Mu and Viswanath, "All-but-the-top" (2018), equation 3: c goes over the eigenvectors of X^T X. An eigenvector has no
    sign, so both are taken. 1 is isotropic; exp(-2), for vectors that are all the same, is the least.
    """
    _, directions = torch.linalg.eigh(_gram(vectors, 0.0))  # [d, d], a direction a column
    sums = torch.zeros(2, len(directions), dtype=torch.float64, device=vectors.device)
    for part in _parts(vectors):
        along = part @ directions  # [rows, d]
        sums += torch.stack((along.exp().sum(0), (-along).exp().sum(0)))
    return float(sums.min() / sums.max())


def effective_rank(vectors: Tensor) -> float:
    """How many directions the vectors [N, d] use: exp of the entropy of their normalised singular values.

    Roy and Vetterli, "The effective rank" (2007), on length-normalised vectors with their mean taken off. Between 1
    and min(N - 1, d); 1 for vectors that are all the same.
    """
    mean = normalize(vectors, dim=-1).mean(0, dtype=torch.float64)  # [d]
    values = torch.linalg.eigvalsh(_gram(vectors, mean)).clamp_min(0).sqrt()  # [d]
    shares = values / values.sum().clamp_min(1e-12)
    return float(torch.special.entr(shares).sum().exp())


def _gram(vectors: Tensor, mean: Tensor | float) -> Tensor:
    """X^T X [d, d] of the vectors scaled to length 1, with the mean taken off."""
    parts = (part - mean for part in _parts(vectors))
    return sum((part.T @ part for part in parts), torch.zeros(()))


def _parts(vectors: Tensor) -> Iterator[Tensor]:
    """The vectors scaled to length 1, some rows at a time, in float64."""
    return (normalize(part.double(), dim=-1) for part in vectors.split(ROWS))
