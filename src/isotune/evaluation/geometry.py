"""How sentence vectors lie in their space."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def mean_cosine(vectors: Tensor) -> float:
    """The mean cosine between different vectors of [N, d]; 1 means that all point the same way."""
    unit = normalize(vectors.cpu().double(), dim=-1)
    n = len(unit)
    # The sum over all pairs is the squared length of the sum; the diagonal's N ones are taken off.
    return float((unit.sum(0).square().sum() - n) / (n * (n - 1)))


def effective_rank(vectors: Tensor) -> float:
    """How many directions the vectors [N, d] use: exp of the entropy of their normalised singular values.

    Roy and Vetterli, "The effective rank" (2007), on length-normalised vectors with their mean taken off. Between 1
    and min(N - 1, d); 1 for vectors that are all the same.
    """
    unit = normalize(vectors.cpu().double(), dim=-1)
    values = torch.linalg.svdvals(unit - unit.mean(0))
    shares = values / values.sum().clamp_min(1e-12)
    return float(torch.special.entr(shares).sum().exp())
