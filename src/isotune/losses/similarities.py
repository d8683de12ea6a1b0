"""Losses of the similarities of all queries to all keys, without holding all of them.

Two views of 16,384 sentences have 2^30 similarities, 4 GB. They are made some queries at a time, and so is the gradient
at them, which goes on to the vectors at once: what is kept for the backward pass is [Q, d] and [K, d].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

BLOCK_QUERIES = 128

BlockLoss = Callable[[Tensor, Tensor], Tensor]
"""From logits [B, K] of some queries, and these queries' numbers [B], to the sum of their losses."""


def mean_over_queries(loss: BlockLoss, queries: Tensor, keys: Tensor, temperature: float) -> Tensor:
    """The mean over queries of a loss of their logits, the products with all keys over the temperature.

    Args:
        loss: of a block of queries; it must not change the logits in place.
        queries: [Q, d].
        keys: [K, d].
        temperature: divides the products.

    Returns:
        A scalar.
    """
    total: Tensor = _BlockwiseSum.apply(loss, queries, keys, temperature)  # type: ignore[no-untyped-call]
    return total / len(queries)


class _BlockwiseSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss: BlockLoss, queries: Tensor, keys: Tensor, temperature: float) -> Tensor:
        numbers = torch.arange(len(queries), device=queries.device)
        gradients = torch.empty_like(queries), torch.zeros_like(keys)  # [Q, d], [K, d]
        total = queries.new_zeros(())
        for own, block, out in zip(*(x.split(BLOCK_QUERIES) for x in (numbers, queries, gradients[0])), strict=True):
            scaled = block / temperature  # [B, d]
            logits = scaled @ keys.T  # [B, K]
            if not any(ctx.needs_input_grad):
                total += loss(logits, own)
                continue
            with torch.enable_grad():
                value = loss(logits.requires_grad_(), own)
            (gradient,) = torch.autograd.grad(value, logits)  # [B, K]
            total += value.detach()
            torch.mm(gradient, keys, out=out).div_(temperature)
            gradients[1].addmm_(gradient.T, scaled)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(gradients[0] * saved for saved in ctx.saved_tensors), None
