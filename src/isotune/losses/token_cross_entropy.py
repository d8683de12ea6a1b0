"""Cross entropy over a vocabulary, without a copy of the scores in float32.

M tokens times V pieces are the largest tensor of masked language modelling. Here it passes once, some rows at a time,
while they are in a CPU's caches; what is kept for the backward pass is the gradient, in the scores' own type.
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
        for rows, goals, out in zip(*(x.split(CHUNK_ROWS) for x in (scores, targets, gradient)), strict=True):
            shares = rows.to(total.dtype).log_softmax(-1)  # [rows, V]
            places = goals[:, None]
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

    Args:
        scores: [M, V], in bfloat16 too; the loss is computed in float32.
        targets: [M] int64.

    Returns:
        A scalar, float32 (float64 for float64 scores); M log V if all scores are the same.
    """
    total: Tensor = _TokenCrossEntropy.apply(scores, targets)  # type: ignore[no-untyped-call]
    return total
