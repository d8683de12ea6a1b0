"""Attention over packed sentences on a CPU.

A `Packed` holds its sentences shortest first, so the sentences of one length are a slice of the row. Each slice becomes
a dense [sentences, heads, length, features] product. No key is padding; only a sliding window needs a mask. If a batch
has few tokens and many lengths, as that of a server has, the whole row is one product with a mask.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad, scaled_dot_product_attention

from isotune.data.draws import ragged_random_bits
from isotune.data.packed import Packed, near_tokens
from isotune.kernels.cpu.dropout import DRAWS, draws_for, dropout_factors

# The next five were set by trials on an AMD EPYC, which docs/log.md tells of. `python benchmarks/run.py encoding` shows
# what another REGISTER, LONG or MASKED costs, and `... training` another SMALL or ONE_THREAD.
# torch's softmax on a CPU computes a row in registers of 16 numbers in float32, of 32 in bfloat16. It computes a row
# shorter than a register, and in bfloat16 the rest of a longer row, number by number, ten times as slowly. In rows of
# 64 numbers or more that hardly counts.
REGISTER = 16
LONG = 64
# If the products of a training batch have fewer multiplications than this on average, numpy's float32 products are
# faster than oneDNN's, which have to be prepared (once for all layers).
SMALL = 2**21
# numpy shares a product of two matrices with more multiplications than this among threads.
ONE_THREAD = 2**18
# Multiplications of the whole row with itself, for each length, up to which one masked product is faster than a product
# for each length.
MASKED = 2**21


def can_mask(query: Tensor, packed: Packed, dropout: float) -> bool:
    """Whether `masked_attention` takes this query, [T, heads, features], and is faster than products length by length.

    Its time grows with the square of T, but hardly with the number of lengths.
    """
    small = len(query) * query.numel() <= MASKED * len(packed.groups)
    return small and not dropout and not torch.is_grad_enabled()


def masked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packed: Packed,
    scaling: float,
    window: int | None,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes [T, heads, features] from query, key and value of that shape, as one product with a mask [T, T]."""
    seen = packed.segments[:, None] == packed.segments
    near = near_tokens(len(query), window, query.device)
    seen = seen if near is None else seen & near
    if bias is not None:
        seen = bias.to(query.dtype)[:, packed.positions[:, None], packed.positions].masked_fill(
            ~seen, -torch.inf
        )
    q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))  # [1, heads, T, features]
    return scaled_dot_product_attention(q, k, v, seen, scale=scaling)[0].transpose(0, 1)


class PlainAttention(torch.autograd.Function):
    """Attention in plain matrix products, with dropout that belongs to the sentences: `DRAWS` draws for it.

    At the length of a sentence, torch's fused attention is several times slower. A training batch has few
    sentences of each length, and preparing oneDNN's product for each new shape would take longer than the product. So
    small training batches use numpy's float32 products, whatever the precision. The backward pass is written by hand
    so that it makes the same choice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        packed: Packed,
        scaling: float,
        dropout: float,
        window: int | None,
        training: bool,
    ) -> Tensor:
        """Computes [T, heads, features] from query, key and value of that shape."""
        heads, features = query.shape[1:]
        sizes = [sentences * heads * length**2 for length, sentences in packed.groups]
        longest = packed.longest
        small = training and longest**2 * features <= ONE_THREAD
        small = small and sum(sizes) * features < SMALL * len(sizes)
        ctx.product = product = _small_product if small else torch.bmm
        dtype = torch.promote_types(query.dtype, torch.float32) if small else query.dtype
        factors = (
            _dropout_factors(packed, heads, dropout, dtype) if dropout else [None] * len(sizes)
        )
        saved, output = [], torch.empty_like(query)
        groups = zip(_groups(packed, query, key, value, output), factors, strict=True)
        for (length, (q_rows, k_rows, v_rows, rows)), factor in groups:
            q, k, v = (
                _by_head(q_rows, dtype).mul_(scaling),
                _by_head(k_rows, dtype),
                _by_head(v_rows, dtype),
            )
            scores = product(q, k.mT)  # [sentences * heads, length, length]
            if bias is not None:
                scores.unflatten(0, (-1, heads)).add_(bias[:, :length, :length])
            near = near_tokens(length, window, q.device)
            if near is not None:
                scores.masked_fill_(~near, -torch.inf)
            weights = _softmax(scores)
            kept = weights if factor is None else (weights * factor).to(dtype)
            _put(rows, product(kept, v))
            saved += [q, k, v, weights, factor]
        ctx.packed, ctx.scaling, ctx.bias = packed, scaling, bias
        ctx.save_for_backward(*saved)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Computes the gradients of query, key and value from that of the output, [T, heads, features] each."""
        gradients, product = [torch.empty_like(gradient) for _ in range(3)], ctx.product
        grad_bias = None if ctx.bias is None else torch.zeros_like(ctx.bias)
        for number, (length, (g_rows, *rows)) in enumerate(
            _groups(ctx.packed, gradient, *gradients)
        ):
            q, k, v, weights, factor = ctx.saved_tensors[5 * number : 5 * number + 5]
            g = _by_head(g_rows, q.dtype)
            kept, grad_weights = weights, product(g, v.mT)
            if factor is not None:
                kept, grad_weights = (weights * factor).to(weights.dtype), grad_weights.mul_(factor)
            grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            if grad_bias is not None:
                grad_bias[:, :length, :length] += grad_scores.unflatten(
                    0, (-1, len(grad_bias))
                ).sum(0)
            grad_q, grad_k = product(grad_scores, k).mul_(ctx.scaling), product(grad_scores.mT, q)
            for place, grad in zip(rows, (grad_q, grad_k, product(kept.mT, g)), strict=True):
                _put(place, grad)
        return *gradients, grad_bias, None, None, None, None, None


def _small_product(a: Tensor, b: Tensor) -> Tensor:
    """The products of small matrices [n, i, j] and [n, j, k] on a CPU."""
    with np.errstate(over="ignore", invalid="ignore"):  # as torch, which has no warnings
        return torch.from_numpy(np.matmul(a.numpy(), b.numpy()))


def _by_head(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Copies [sentences, length, heads, features] to [sentences * heads, length, features]."""
    return (
        x.transpose(1, 2).to(dtype, memory_format=torch.contiguous_format, copy=True).flatten(0, 1)
    )


def _put(rows: Tensor, x: Tensor) -> None:
    """Writes [sentences * heads, length, features] into `rows`, [sentences, length, heads, features]."""
    rows.transpose(1, 2).copy_(x.unflatten(0, (len(rows), -1)))


def _softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension of [n, length, length]; pads short rows with minus infinity, in float32."""
    length = scores.shape[-1]
    if length >= LONG:
        return scores.softmax(-1)
    exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if length < REGISTER:
        exact = pad(exact, (0, REGISTER - length), value=-torch.inf)
    return exact.softmax(-1)[..., :length].to(scores.dtype)


def _groups(packed: Packed, *rows: Tensor) -> Iterator[tuple[int, list[Tensor]]]:
    """Yields each length, with the parts of the rows [T, ...] that its sentences have: [sentences, length, ...]."""
    # A split, not slices: its backward pass is a single concatenation.
    parts = (x.split([length * sentences for length, sentences in packed.groups]) for x in rows)
    for (length, sentences), *group in zip(packed.groups, *parts, strict=True):
        yield length, [x.unflatten(0, (sentences, length)) for x in group]


def _dropout_factors(packed: Packed, heads: int, rate: float, dtype: torch.dtype) -> list[Tensor]:
    """The factors of the weights of each length's sentences, [sentences * heads, length, length]."""
    # A draw for each length would take longer: in a training batch, each length has few sentences.
    bits = ragged_random_bits(DRAWS.get().of_sentences(), draws_for(heads * packed.lengths**2))
    factors = dropout_factors(bits, rate, dtype)
    groups = [(length, sentences, heads * length**2) for length, sentences in packed.groups]
    parts = factors.split([sentences * 4 * draws_for(count) for _, sentences, count in groups])
    return [
        part.view(sentences, -1)[:, :count].reshape(-1, length, length)
        for (length, sentences, count), part in zip(groups, parts, strict=True)
    ]
