"""The measures of a space, pair by pair as the papers write them."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def unit(vector: Tensor) -> Tensor:
    return vector / vector.square().sum().sqrt()


def squared_distance(a: Tensor, b: Tensor) -> float:
    return float(sum((x - y) ** 2 for x, y in zip(unit(a), unit(b), strict=True)))


def alignment(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    """Wang and Isola (2020), alpha = 2."""
    return sum(squared_distance(a, b) for a, b in zip(first, second, strict=True)) / len(first)


def uniformity(vectors: Sequence[Tensor]) -> float:
    """Wang and Isola (2020), t = 2."""
    n = len(vectors)
    kernels = [
        math.exp(-2 * squared_distance(vectors[i], vectors[j]))
        for i in range(n)
        for j in range(n)
        if i != j
    ]
    return math.log(sum(kernels) / len(kernels))


def mean_cosine(vectors: Sequence[Tensor]) -> float:
    n = len(vectors)
    cosines = [
        float(unit(vectors[i]) @ unit(vectors[j])) for i in range(n) for j in range(n) if i != j
    ]
    return sum(cosines) / len(cosines)


def effective_rank(vectors: Sequence[Tensor]) -> float:
    """Roy and Vetterli (2007)."""
    x = torch.stack([unit(vector) for vector in vectors])
    values = torch.linalg.svdvals(x - x.mean(0)).tolist()
    shares = [value / sum(values) for value in values]
    return math.exp(-sum(share * math.log(share) for share in shares if share > 0))
