"""Attention over packed sentences on a GPU, by kernels of torch; and the seed of a pass there.

In half precision, torch's flash attention for sequences of different lengths takes the whole row in
one kernel. That kernel drops no attention weights. With dropout of weights, and in float32, the
sentences are padded to one length for torch's scaled dot product attention, as in transformers' own
models; the layers around it stay packed.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from isotune.data.draws import derive_seed
from isotune.data.packed import ALL, Packed, Reach
from isotune.kernels.precision import AMPERE

LARGEST_HEAD = 256
"""Features of a head, in multiples of 8, that flash attention takes."""


def gpu_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packed: Packed,
    scaling: float,
    dropout: float = 0.0,
    reach: Reach = ALL,
    bias: Tensor | None = None,
) -> Tensor:
    """Computes [T, heads, features] from query, key and value of that shape.

    torch's generator draws for `dropout`.
    """
    if bias is None and can_flash(query, dropout):
        return flash_attention(query, key, value, packed, scaling, reach)
    padded = packed.pad(torch.stack((query, key, value), 1))  # [N, longest, 3, heads, features]
    q, k, v = padded.permute(2, 0, 3, 1, 4).unbind()  # [N, heads, longest, features]
    mask = _mask(packed, reach, q.device)
    if bias is not None:
        bias = bias.to(q.dtype)  # [heads, longest, longest]
        if mask is not None:
            bias = bias.masked_fill(~mask, -torch.inf)  # [N or 1, heads, longest, longest]
        mask = bias
    output = scaled_dot_product_attention(q, k, v, mask, dropout_p=dropout, scale=scaling)
    return packed.unpad(output.transpose(1, 2))


def _mask(packed: Packed, reach: Reach, device: torch.device) -> Tensor | None:
    """Which keys a query sees, [N, 1, 1 or longest, longest]; None if it sees all.

    Without padding, the mask is [longest, longest].
    """
    seen = reach.seen(packed.longest, device)  # [longest, longest]
    if len(packed.groups) == 1:
        return seen
    mask = packed.mask[:, None, None, :]  # [N, 1, 1, longest]
    if seen is None:
        return mask
    return mask & seen


def can_flash(query: Tensor, dropout: float) -> bool:
    """Whether `flash_attention` takes this query, [T, heads, features]."""
    if not query.is_cuda or query.dtype not in (torch.bfloat16, torch.float16):
        return False
    if dropout or query.shape[-1] % 8 or query.shape[-1] > LARGEST_HEAD:
        return False
    return torch.cuda.get_device_capability(query.device) >= AMPERE


def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, scaling: float, reach: Reach = ALL
) -> Tensor:
    """Computes [T, heads, features] from query, key and value of that shape, in one kernel."""
    from torch.nn.attention.varlen import varlen_attn

    longest = packed.longest
    before = -1
    if reach.window is not None:
        before = reach.window - 1
    after = before
    if reach.causal:
        after = 0
    bounds = packed.bounds
    output = varlen_attn(
        query,
        key,
        value,
        bounds,
        bounds,
        longest,
        longest,
        scale=scaling,
        window_size=(before, after),
    )
    # A second tensor would be returned on request only.
    assert isinstance(output, Tensor)
    return output


def seed_gpu(device: torch.device, seed: int, *path: int) -> None:
    """Has the generator of a GPU begin at a seed for a path of numbers.

    A CPU draws from the sentences' seeds.
    """
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(derive_seed(seed, "pass", *path))
