"""Attention over packed sentences on a CPU.

A `Packed` holds its sentences shortest first, so the sentences of one length are a slice of the
row. Each slice becomes a dense [sentences, heads, length, features] product. No key is padding;
only a `Reach` that ends needs a mask. If a batch has few tokens and many lengths, as that of a
server has, the whole row is one product with a mask.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad, scaled_dot_product_attention

from isotune.data.draws import ragged_random_bits
from isotune.data.packed import ALL, Packed, Reach
from isotune.kernels.cpu.dropout import DRAWS, draws_for, dropout_factors

# The next five were set by trials on an AMD EPYC, which docs/log.md tells of.
# `python benchmarks/run.py encoding` shows what another REGISTER, LONG or MASKED costs, and
# `... training` another SMALL or ONE_THREAD.

# torch's softmax on a CPU computes a row in registers of 16 numbers in float32, of 32 in bfloat16.
# It computes a row shorter than a register, and in bfloat16 the rest of a longer row, number by
# number, ten times as slowly. In rows of 64 numbers or more that hardly counts.
REGISTER = 16
LONG = 64

SMALL = 2**21
"""Multiplications of the products of a training batch, on average.

With fewer, numpy's float32 products are faster than oneDNN's, which have to be prepared (once for
all layers).
"""

ONE_THREAD = 2**18
"""numpy shares a product of two matrices with more multiplications than this among threads."""

SAVED = 5
"""Tensors that `PlainAttention` saves for each length."""

MASKED = 2**21
"""Multiplications of the whole row with itself, for each length.

Up to this number, one masked product is faster than a product for each length.
"""


def can_mask(query: Tensor, packed: Packed, dropout: float) -> bool:
    """Whether `masked_attention` takes this query, [T, heads, features], and is faster.

    Its time grows with the square of T, but hardly with the number of lengths.
    """
    if dropout or torch.is_grad_enabled():
        return False
    return len(query) * query.numel() <= MASKED * len(packed.groups)


def masked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packed: Packed,
    scaling: float,
    reach: Reach = ALL,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes [T, heads, features] from query, key and value of that shape.

    It is one product with a mask [T, T].
    """
    mask = packed.segments[:, None] == packed.segments  # [T, T]
    seen = reach.seen(len(query), query.device)
    if seen is not None:
        mask = mask & seen
    if bias is not None:
        token_bias = bias.to(query.dtype)[:, packed.positions[:, None], packed.positions]
        mask = token_bias.masked_fill(~mask, -torch.inf)  # [heads, T, T]
    q = query.transpose(0, 1)[None]  # [1, heads, T, features]
    k = key.transpose(0, 1)[None]  # [1, heads, T, features]
    v = value.transpose(0, 1)[None]  # [1, heads, T, features]
    return scaled_dot_product_attention(q, k, v, mask, scale=scaling)[0].transpose(0, 1)


@dataclass(frozen=True, eq=False)
class PlainOptions:
    """What `PlainAttention` needs besides tensors."""

    packed: Packed
    scaling: float

    dropout: float
    """The rate at which single weights are dropped."""

    training: bool

    reach: Reach = ALL


class PlainAttention(torch.autograd.Function):
    """Attention in plain matrix products, with dropout that belongs to the sentences.

    `DRAWS` draws for the dropout. At the length of a sentence, torch's fused attention is several
    times slower. A training batch has few sentences of each length, and preparing oneDNN's product
    for each new shape would take longer than the product. So small training batches use numpy's
    float32 products, whatever the precision. The backward pass is written by hand so that it makes
    the same choice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        options: PlainOptions,
    ) -> Tensor:
        """Computes [T, heads, features] from query, key and value of that shape."""
        packed = options.packed
        heads, features = query.shape[1:]
        product: Callable[[Tensor, Tensor], Tensor] = torch.bmm
        dtype = query.dtype
        if options.training and _are_small(packed, heads, features):
            product = _small_product
            dtype = torch.promote_types(query.dtype, torch.float32)
        factors: Sequence[Tensor | None] = [None] * len(packed.groups)
        if options.dropout:
            factors = _dropout_factors(packed, heads, options.dropout, dtype)
        saved = []
        output = torch.empty_like(query)
        groups = zip(_groups(packed, query, key, value, output), factors, strict=True)
        for (length, (q_rows, k_rows, v_rows, rows)), factor in groups:
            q = _by_head(q_rows, dtype).mul_(options.scaling)
            k = _by_head(k_rows, dtype)
            v = _by_head(v_rows, dtype)
            scores = product(q, k.mT)  # [sentences * heads, length, length]
            if bias is not None:
                scores.unflatten(0, (-1, heads)).add_(bias[:, :length, :length])
            seen = options.reach.seen(length, q.device)
            if seen is not None:
                scores.masked_fill_(~seen, -torch.inf)
            weights = _softmax(scores)
            saved += [q, k, v, weights, factor]
            if factor is not None:
                weights = (weights * factor).to(dtype)
            _put(rows, product(weights, v))
        ctx.options = options
        ctx.bias = bias
        ctx.product = product
        ctx.save_for_backward(*saved)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Computes the gradients of query, key and value from that of the output.

        All are [T, heads, features].
        """
        product = ctx.product
        gradients = [torch.empty_like(gradient) for _ in range(3)]
        grad_bias = None
        if ctx.bias is not None:
            grad_bias = torch.zeros_like(ctx.bias)
        saved = iter(ctx.saved_tensors)
        groups = _groups(ctx.options.packed, gradient, *gradients)
        for length, (g_rows, q_rows, k_rows, v_rows) in groups:
            q, k, v, weights, factor = islice(saved, SAVED)
            g = _by_head(g_rows, q.dtype)
            after_dropout = weights
            grad_weights = product(g, v.mT)
            if factor is not None:
                after_dropout = (weights * factor).to(weights.dtype)
                grad_weights = grad_weights.mul_(factor)
            grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            if grad_bias is not None:
                by_head = grad_scores.unflatten(0, (-1, len(grad_bias)))
                grad_bias[:, :length, :length] += by_head.sum(0)
            _put(q_rows, product(grad_scores, k).mul_(ctx.options.scaling))
            _put(k_rows, product(grad_scores.mT, q))
            _put(v_rows, product(after_dropout.mT, g))
        return *gradients, grad_bias, None


def _are_small(packed: Packed, heads: int, features: int) -> bool:
    """Whether the products of a training batch are so small that numpy's are faster."""
    if packed.longest**2 * features > ONE_THREAD:
        return False
    sizes = [sentences * heads * length**2 for length, sentences in packed.groups]
    return sum(sizes) * features < SMALL * len(sizes)


def _small_product(a: Tensor, b: Tensor) -> Tensor:
    """The products of small matrices [n, i, j] and [n, j, k] on a CPU."""
    # torch has no warnings, so numpy gives none.
    with np.errstate(over="ignore", invalid="ignore"):
        return torch.from_numpy(np.matmul(a.numpy(), b.numpy()))


def _by_head(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Copies [sentences, length, heads, features] to [sentences * heads, length, features]."""
    by_head = x.transpose(1, 2)
    return by_head.to(dtype, memory_format=torch.contiguous_format, copy=True).flatten(0, 1)


def _put(rows: Tensor, x: Tensor) -> None:
    """Writes [sentences * heads, length, features] into [sentences, length, heads, features]."""
    rows.transpose(1, 2).copy_(x.unflatten(0, (len(rows), -1)))


def _softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension of [n, length, length].

    Short rows are padded with minus infinity, in float32.
    """
    length = scores.shape[-1]
    if length >= LONG:
        return scores.softmax(-1)
    exact = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if length < REGISTER:
        exact = pad(exact, (0, REGISTER - length), value=-torch.inf)
    return exact.softmax(-1)[..., :length].to(scores.dtype)


def _groups(packed: Packed, *rows: Tensor) -> Iterator[tuple[int, list[Tensor]]]:
    """Yields each length, with the parts of the rows [T, ...] that its sentences have.

    A part is [sentences, length, ...].
    """
    sizes = [length * sentences for length, sentences in packed.groups]
    # The backward pass of a split, unlike that of slices, is a single concatenation.
    parts = [x.split(sizes) for x in rows]
    for (length, sentences), *group in zip(packed.groups, *parts, strict=True):
        yield length, [x.unflatten(0, (sentences, length)) for x in group]


def _dropout_factors(packed: Packed, heads: int, rate: float, dtype: torch.dtype) -> list[Tensor]:
    """The factors of the weights for each length, [sentences * heads, length, length]."""
    # A draw for each length would take longer: in a training batch, each length has few sentences.
    bits = ragged_random_bits(DRAWS.get().of_sentences(), draws_for(heads * packed.lengths**2))
    factors = dropout_factors(bits, rate, dtype)
    sizes = []
    for length, sentences in packed.groups:
        sizes.append(sentences * 4 * draws_for(heads * length**2))
    factors_by_length = []
    for (length, sentences), part in zip(packed.groups, factors.split(sizes), strict=True):
        needed = part.view(sentences, -1)[:, : heads * length**2]
        factors_by_length.append(needed.reshape(-1, length, length))
    return factors_by_length
