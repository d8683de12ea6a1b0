"""The losses, sum by sum as the papers write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def sim(a: Tensor, b: Tensor) -> Tensor:
    """Cosine similarity of two vectors."""
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """ConSERT, equation 1, averaged over all 2N."""
    r = [*first, *second]
    n = len(first)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(2 * n):
        j = (i + n) % (2 * n)
        denominator = sum(torch.exp(sim(r[i], r[k]) / temperature) for k in range(2 * n) if k != i)
        total = total - torch.log(torch.exp(sim(r[i], r[j]) / temperature) / denominator)
    return total / (2 * n)


def info_nce(queries: Sequence[Tensor], keys: Sequence[Tensor], temperature: float) -> Tensor:
    """SimCSE, equation 1, averaged over the batch."""
    n = len(queries)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(n):
        denominator = sum(torch.exp(sim(queries[i], keys[j]) / temperature) for j in range(n))
        total = total - torch.log(torch.exp(sim(queries[i], keys[i]) / temperature) / denominator)
    return total / n


def orthogonal_views(negatives: int, temperature: float) -> float:
    """The loss when a view equals its counterpart and is orthogonal to all of its negatives."""
    return math.log(1 + negatives * math.exp(-1 / temperature))
