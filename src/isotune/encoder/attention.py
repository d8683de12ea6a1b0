"""Attention over packed sentences: block-diagonal, without a mask.

transformers' models look their attention function up by name (`AttentionInterface`), and hand it every keyword
argument that the model was called with. Ours, registered under `PACKED`, takes the batch that way. Since a `Packed`
holds its sentences shortest first, those of one length are a slice of the row: each slice becomes a dense
[sentences, heads, length, features] product, and no key is ever masked out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from isotune.data.packed import Packed

PACKED = "isotune_packed"


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed: Packed,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    head_dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of every token to the tokens of its own sentence.

    Args:
        module: the attention layer (unused; part of transformers' interface).
        query, key, value: [1, heads, T, features of a head].
        attention_mask: None; transformers builds no mask for an attention it doesn't know.
        packed: the batch.
        scaling: factor of the logits; 1 / sqrt(features of a head) if None.
        dropout: probability that a weight is dropped.
        sliding_window: a token sees those less than this many places away (ModernBERT's local layers).
        head_dropout: probability that a head says nothing of a sentence, see `_drop_heads`.

    Returns:
        [1, T, heads, features of a head], and None for the weights.
    """
    groups = packed.groups
    slices = [length * sentences for length, sentences in groups]
    outputs = []
    # One split, not many slices: its backward is a single concatenation.
    rows = (x[0].transpose(0, 1).split(slices) for x in (query, key, value))
    for (length, sentences), q, k, v in zip(groups, *rows, strict=True):
        q, k, v = (x.unflatten(0, (sentences, length)).transpose(1, 2) for x in (q, k, v))
        near = None
        if sliding_window is not None and length > sliding_window:
            place = torch.arange(length, device=q.device)
            near = (place[:, None] - place).abs() < sliding_window  # [length, length]
        attend = _plain_attention if q.device.type == "cpu" and q.dtype == torch.bfloat16 else _fused_attention
        out = attend(q, k, v, near, dropout, scaling)
        outputs.append(out.transpose(1, 2).flatten(0, 1))  # [sentences * length, heads, features]
    output = torch.cat(outputs)  # [T, heads, features]
    if head_dropout:
        output = _drop_heads(output, packed, head_dropout)
    return output.unsqueeze(0), None


def _fused_attention(
    q: Tensor, k: Tensor, v: Tensor, near: Tensor | None, dropout: float, scaling: float | None
) -> Tensor:
    """[sentences, heads, length, features] three times -> the same."""
    return scaled_dot_product_attention(q, k, v, near, dropout_p=dropout, scale=scaling)


def _plain_attention(
    q: Tensor, k: Tensor, v: Tensor, near: Tensor | None, dropout: float, scaling: float | None
) -> Tensor:
    """The same in plain products: on a CPU in bfloat16, and at a sentence's length, several times as fast."""
    scores = (q * (q.shape[-1] ** -0.5 if scaling is None else scaling)) @ k.transpose(-1, -2)
    if near is not None:
        scores = scores.masked_fill(~near, -torch.inf)
    weights = scores.softmax(-1)  # [sentences, heads, length, length]
    if dropout:
        weights = torch.nn.functional.dropout(weights, dropout)
    return weights @ v


def _drop_heads(output: Tensor, packed: Packed, rate: float) -> Tensor:
    """DropHead (Zhou et al., 2020) as MirrorBERT uses it: whole heads of a sentence become 0 and the others grow.

    Each head of each sentence is dropped by itself, in every layer anew; those that are left are multiplied by the
    number of heads over the number left. Where none is, all are 0.
    """
    left = torch.rand(len(packed), output.shape[1], device=output.device) >= rate  # [N, heads]
    scale = left * (output.shape[1] / left.sum(1, keepdim=True).clamp(min=1))  # [N, heads]
    return output * scale.to(output.dtype)[packed.segments][:, :, None]


AttentionInterface.register(PACKED, packed_attention)
