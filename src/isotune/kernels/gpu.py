"""Attention over packed sentences on a GPU, by kernels of torch; and the seed of a forward pass there.

In half precision, torch's flash attention for sequences of different lengths takes the whole row in one kernel. That
kernel drops no attention weights. With dropout of weights, and in float32, the sentences are padded to one length for
torch's scaled dot product attention, as in transformers' own models; the layers around it stay packed.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from isotune.data.draws import derive_seed
from isotune.data.packed import Packed, near_tokens
from isotune.kernels.precision import AMPERE

LARGEST_HEAD = 256  # features of a head, in multiples of 8, that flash attention takes


def gpu_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packed: Packed,
    scaling: float,
    dropout: float = 0.0,
    window: int | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes [T, heads, features] from query, key and value of that shape; torch's generator draws for `dropout`."""
    if bias is None and can_flash(query, dropout):
        return flash_attention(query, key, value, packed, scaling, window)
    padded = packed.pad(torch.stack((query, key, value), 1))  # [N, longest, 3, heads, features]
    q, k, v = padded.permute(2, 0, 3, 1, 4).unbind()  # [N, heads, longest, features]
    mask = None if len(packed.groups) == 1 else packed.mask[:, None, None, :]  # [N, 1, 1, longest]
    near = near_tokens(q.shape[2], window, q.device)
    if near is not None:
        mask = near if mask is None else mask & near
    if bias is not None:
        bias = bias.to(q.dtype)
        mask = (
            bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        )  # [N or 1, heads, longest, longest]
    output = scaled_dot_product_attention(q, k, v, mask, dropout_p=dropout, scale=scaling)
    return packed.unpad(output.transpose(1, 2))


def can_flash(query: Tensor, dropout: float) -> bool:
    """Whether `flash_attention` takes this query, [T, heads, features]."""
    return (
        query.is_cuda
        and query.dtype in (torch.bfloat16, torch.float16)
        and not dropout
        and query.shape[-1] % 8 == 0
        and query.shape[-1] <= LARGEST_HEAD
        and torch.cuda.get_device_capability(query.device) >= AMPERE
    )


def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, scaling: float, window: int | None
) -> Tensor:
    """Computes [T, heads, features] from query, key and value of that shape, in one kernel."""
    from torch.nn.attention.varlen import varlen_attn

    longest = packed.longest
    side = -1 if window is None else window - 1
    bounds = packed.bounds  # where each sentence ends
    output = varlen_attn(
        *(query, key, value),
        bounds,
        bounds,
        longest,
        longest,
        scale=scaling,
        window_size=(side, side),
    )
    assert isinstance(output, Tensor)  # a second tensor would be returned on request only
    return output


def seed_gpu(device: torch.device, seed: int, *path: int) -> None:
    """Has the generator of a GPU begin at a seed for a path of numbers; a CPU draws from the sentences' seeds."""
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(derive_seed(seed, "pass", *path))
