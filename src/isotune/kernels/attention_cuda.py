"""Attention over packed sentences on a GPU: torch's flash attention for sequences of different lengths, in one kernel.

It takes the packed row as it is, and knows from `Packed.bounds` where a sentence ends. It has no dropout of weights and
computes in half precision only; elsewhere attention goes by groups of equal length (`attention.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from isotune.data.packed import Packed

LARGEST_HEAD = 256  # features that its kernels go up to, by eights
FIRST_CAPABILITY = (8, 0)  # Ampere


def can_attend(query: Tensor, dropout: float) -> bool:
    """Whether `attend` takes queries like this [T, heads, features]."""
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
    """Attention of every token to the tokens of its own sentence.

    Args:
        query, key, value: [T, heads, features of a head].
        packed: the batch.
        scaling: factor of the logits.
        sliding_window: a token sees those less than this many places away.

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
    assert isinstance(output, Tensor)  # without the second one, which is returned when it is asked for
    return output
