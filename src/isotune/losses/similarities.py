"""Losses of the similarities of all queries with all keys, in float32, without holding all of them.

Two views of 16,384 sentences have 2^30 similarities, 4 GB. Here they are computed for some queries
at a time. The gradient of the similarities is passed on to the vectors at once, so only [Q, d] and
[K, d] are kept for the backward pass. The temperature is a number and gets no gradient: a learned
temperature needs another backward pass here.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

P = ParamSpec("P")
BLOCK_QUERIES = 128
"""Queries whose logits a CPU's caches hold."""

GPU_BLOCK_QUERIES = 4096
"""Queries with which a GPU has few launches."""

BlockLoss = Callable[[Tensor, Tensor], Tensor]
"""From the logits [B, K] and the numbers [B] of some queries to the sum of their losses."""


def in_float32(loss: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Makes a loss compute bfloat16 vectors in float32, also under autocast.

    Bfloat16 cosines are too coarse to compare once they are divided by a small temperature.
    """

    @wraps(loss)
    def computed(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        device = next(value.device.type for value in args if isinstance(value, Tensor))
        with torch.autocast(device, enabled=False):
            return loss(*map(_exact, args), **kwargs)  # type: ignore[arg-type]

    return computed


def _exact(value: object) -> object:
    """A tensor of bfloat16 in float32; any other value as it is."""
    if isinstance(value, Tensor) and value.dtype == torch.bfloat16:
        return value.float()
    return value


def contrastive_loss(
    queries: Tensor,
    candidates: Tensor,
    temperature: float,
    positive: Tensor,
    itself: Tensor,
    groups: Tensor | None = None,
) -> Tensor:
    """The mean over queries of -log softmax of the similarity with the positive.

    The softmax is over all candidates but the query. `queries` [Q, d] and `candidates` [K, d] are
    normalised, and each query is one of the candidates. `positive` and `itself`, [Q] int64, are the
    numbers of each query's positive and of the query among the candidates. `groups`, [K, G] int64,
    are the groups of each candidate; candidates that share a group with the query are left out.
    """

    def loss(logits: Tensor, numbers: Tensor) -> Tensor:  # [B, K], [B]
        others = logits.scatter(1, itself[numbers][:, None], -torch.inf)  # [B, K]
        if groups is not None:
            others = without_shared(others, groups, itself[numbers], positive[numbers])
        return cross_entropy(others, positive[numbers], reduction="sum")

    return mean_over_queries(loss, queries, candidates, temperature)


def without_shared(logits: Tensor, groups: Tensor, own: Tensor, positive: Tensor) -> Tensor:
    """Logits [B, K] without the candidates that share one of their groups [K, G] with the query.

    The query's positive stays. `own` and `positive`, [B], are the numbers of a candidate that has
    the query's groups, and of the positive.
    """
    shared = (groups[own][:, None, :, None] == groups[:, None, :]).flatten(2).any(2)  # [B, K]
    return logits.masked_fill(shared.scatter(1, positive[:, None], False), -torch.inf)


def mean_over_queries(loss: BlockLoss, queries: Tensor, keys: Tensor, temperature: float) -> Tensor:
    """The mean over queries of a loss of their logits.

    The logits are the products with all keys over the temperature. `queries` are [Q, d] and `keys`
    [K, d]; `loss` must not change the logits in place.
    """
    return _BlockwiseSum.apply(loss, queries, keys, temperature) / len(queries)  # type: ignore[no-untyped-call]


class _BlockwiseSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, loss: BlockLoss, queries: Tensor, keys: Tensor, temperature: float
    ) -> Tensor:
        numbers = torch.arange(len(queries), device=queries.device)  # [Q]
        query_gradients = torch.empty_like(queries)  # [Q, d]
        key_gradients = torch.zeros_like(keys)  # [K, d]
        total = queries.new_zeros(())
        size = BLOCK_QUERIES if queries.is_cpu else GPU_BLOCK_QUERIES
        blocks = zip(
            numbers.split(size), queries.split(size), query_gradients.split(size), strict=True
        )
        for which, block, out in blocks:
            scaled = block / temperature  # [B, d]
            logits = scaled @ keys.T  # [B, K]
            if not any(ctx.needs_input_grad):
                total += loss(logits, which)
                continue
            with torch.enable_grad():
                value = loss(logits.requires_grad_(), which)
            (logit_gradients,) = torch.autograd.grad(value, logits)  # [B, K]
            total += value.detach()
            torch.mm(logit_gradients, keys, out=out).div_(temperature)
            key_gradients.addmm_(logit_gradients.T, scaled)
        ctx.save_for_backward(query_gradients, key_gradients)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query_gradients, key_gradients = ctx.saved_tensors
        return None, gradients[0] * query_gradients, gradients[0] * key_gradients, None
