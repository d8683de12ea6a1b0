"""Negative log-likelihoods: of vectors under a flow, and of tokens under a language model."""

import math
from typing import Any

import torch
from torch import Tensor

from isotune.losses.similarities import in_float32

CHUNK_ROWS = 32
"""Rows that a CPU's caches hold."""

GPU_CHUNK_ROWS = 2048
"""Rows with which a GPU has few launches."""


@in_float32
def bits_per_dimension(z: Tensor, log_determinant: Tensor) -> Tensor:
    """The mean over vectors of -(log N(z; 0, I) + log |det dz/dx|) / (d log 2).

    `z` [N, d] is the flow's output for the vectors x; `log_determinant` is log |det dz/dx|, [N], or
    a scalar if it is the same for all vectors. The loss can be negative, because a density can be
    greater than 1.

    BERT-flow; BERT-CF's L_flow, section 4.2. The unit is bits for each feature, as in Glow's and
    BERT-flow's code. BERT-CF's formula has nats for all 768 features together, which would leave a
    loss beside it without effect.
    """
    log_prior = -0.5 * (z.square() + math.log(2 * math.pi)).sum(1)  # [N]
    return -(log_prior + log_determinant).mean() / (z.shape[1] * math.log(2))


def token_cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """The sum over tokens of -log softmax of the right piece's score.

    `scores` is [M, V], and `targets` [M] int64 has the right pieces. The loss is float32 (float64
    for float64 scores); M log V if all scores are equal. The scores are the largest tensor of
    masked language modelling. They are read once, some rows at a time, while these rows are in a
    CPU's caches, and are never copied to float32. Only the gradient is kept for the backward pass,
    in the type of the scores.
    """
    return _TokenCrossEntropy.apply(scores, targets)  # type: ignore[no-untyped-call]


class _TokenCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor) -> Tensor:
        total = scores.new_zeros((), dtype=torch.promote_types(scores.dtype, torch.float32))
        gradient = torch.empty_like(scores)  # [M, V]
        rows = CHUNK_ROWS if scores.is_cpu else GPU_CHUNK_ROWS
        chunks = zip(scores.split(rows), targets.split(rows), gradient.split(rows), strict=True)
        for chunk, right, out in chunks:
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
