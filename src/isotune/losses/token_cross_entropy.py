"""Cross entropy over a vocabulary, without a copy of the scores in float32.

The scores of M tokens over V pieces are the largest tensor of masked language modelling. They are read once, some rows
at a time, while these rows are in a CPU's caches. Only the gradient is kept for the backward pass, in the type of the
scores.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK_ROWS = 32


class _TokenCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor) -> Tensor:
        total = scores.new_zeros((), dtype=torch.promote_types(scores.dtype, torch.float32))
        gradient = torch.empty_like(scores)  # [M, V]
        for chunk, right, out in zip(*(x.split(CHUNK_ROWS) for x in (scores, targets, gradient)), strict=True):
            shares = chunk.to(total.dtype).log_softmax(-1)  # [rows, V]
            places = right[:, None]  # [rows, 1]
            total -= shares.gather(1, places).sum()
            shares.exp_().scatter_add_(1, places, torch.full_like(places, -1, dtype=total.dtype))
            out.copy_(shares)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * gradients[0].to(gradient.dtype), None


def token_cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """The sum over tokens of -log softmax of the right piece's score.

    `scores` is [M, V], and `targets` [M] int64 has the right pieces. The loss is float32 (float64 for float64 scores);
    M log V if all scores are equal.
    """
    total: Tensor = _TokenCrossEntropy.apply(scores, targets)  # type: ignore[no-untyped-call]
    return total
