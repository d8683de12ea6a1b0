"""Attention over packed sentences on a GPU: torch's flash attention for sequences of different lengths, in one kernel.

The kernel takes the packed row as it is; `Packed.bounds` says where each sentence ends. It computes in half precision
only, and has no dropout of attention weights. All other cases go by groups of equal length (`attention.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from isotune.data.packed import Packed

LARGEST_HEAD = 256  # the kernels take heads of up to this many features, in multiples of 8
FIRST_CAPABILITY = (8, 0)  # Ampere


def can_attend(query: Tensor, dropout: float) -> bool:
    """Whether `attend` can compute this query, [T, heads, features], with this rate of dropout."""
    return (
        query.is_cuda
        and query.dtype in (torch.bfloat16, torch.float16)
        and not dropout
        and query.shape[-1] % 8 == 0
        and query.shape[-1] <= LARGEST_HEAD
        and torch.cuda.get_device_capability(query.device) >= FIRST_CAPABILITY
    )


def attend(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, scaling: float, sliding_window: int | None
) -> Tensor:
    """Computes the attention of every token to the tokens of its own sentence.

    Args:
        query, key, value: [T, heads, features of a head].
        packed: the batch.
        scaling: factor of the logits.
        sliding_window: a token sees the tokens less than this many places away.

    Returns:
        [T, heads, features of a head].
    """
    from torch.nn.attention.varlen import varlen_attn

    longest, _ = packed.groups[-1]
    side = -1 if sliding_window is None else sliding_window - 1
    output = varlen_attn(
        *(query, key, value),
        *(packed.bounds, packed.bounds),
        *(longest, longest),
        scale=scaling,
        window_size=(side, side),
    )
    assert isinstance(output, Tensor)  # a second tensor would be returned on request only
    return output
