"""SIF, line by line as Algorithm 1 of Arora et al. (2017) writes it, in float64."""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor


def weighted_mean(tokens: Sequence[int], vectors: Tensor, counts: Counter[int], a: float) -> Tensor:
    """A sentence's vector [d]: the mean of its tokens' [length, d], weighed by a / (a + p(w)).

    The sum is divided by that of the weights, where the paper divides by the sentence's length.
    """
    weights = [a / (a + counts[token] / counts.total()) for token in tokens]
    total = sum(
        (w * v for w, v in zip(weights, vectors, strict=True)), torch.zeros_like(vectors[0])
    )
    return total / sum(weights)


def without_common_component(vectors: Tensor, of_text: Tensor) -> Tensor:
    """Vectors [N, d] minus their projections on a direction (lines 4 to 7).

    The direction is the first singular vector of the text's vectors.
    """
    u = torch.linalg.svd(of_text.T)[0][:, 0]  # [d]
    return torch.stack([v - u * (u @ v) for v in vectors])
