"""Attention over packed sentences: every token sees the tokens of its own sentence.

A CPU computes it without a mask (`cpu/attention.py`), a GPU by what GPU libraries do best
(`gpu.py`).

A model of transformers looks up its attention function by name, and passes on all keyword arguments
of the model's call; the packed batch is one of them. Importing this module adds our function to
transformers' registry under the name `PACKED`. This is the one lasting change to another library:
it affects no model that doesn't ask for that name.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from isotune.data.packed import Packed, Reach
from isotune.kernels.cpu.attention import PlainAttention, PlainOptions, can_mask, masked_attention
from isotune.kernels.gpu import gpu_attention

PACKED = "isotune_packed"


def packed_attention(  # noqa: PLR0913 (these are the arguments that transformers passes)
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
    causal: bool = False,
    attention_dropout: float | None = None,
    bias: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Computes the attention of every token to the tokens of its own sentence.

    The form is that which transformers expects. The query is [1, heads, T, features of a head]; key
    and value are so too, or have fewer heads, each for as many heads of the query in a row. The
    output is [1, T, heads, features of a head], and None in place of the weights. `scaling` is the
    factor of the logits; None for 1 / sqrt(features of a head). With a `sliding_window`, a token
    sees the tokens less than this many places away (ModernBERT's local layers); if `causal`, it
    sees none behind it. `dropout` drops single weights, at `attention_dropout` if it is given, and
    else at the model's rate. `bias` [heads, longest, longest] is added to the logits, by the places
    of two tokens in their sentence (MPNet); a shorter sentence takes its first rows and columns.
    `attention_mask` is None: transformers builds none for a function that is not its own.
    """
    q = query[0].transpose(0, 1)  # [T, heads, features]
    k = _for_heads(key[0].transpose(0, 1), q.shape[1])  # [T, heads, features]
    v = _for_heads(value[0].transpose(0, 1), q.shape[1])  # [T, heads, features]
    reach = Reach(sliding_window, causal)
    if scaling is None:
        scaling = q.shape[-1] ** -0.5
    if attention_dropout is not None:
        dropout = attention_dropout
    if not q.is_cpu:
        output = gpu_attention(q, k, v, packed, scaling, dropout, reach, bias)
        return output.unsqueeze(0), None
    # Autocast would convert to float32 for the softmax, and back. The softmax sums in float32
    # anyway.
    with torch.autocast("cpu", enabled=False):
        if can_mask(q, packed, dropout):
            output = masked_attention(q, k, v, packed, scaling, reach, bias)
        else:
            options = PlainOptions(packed, scaling, dropout, module.training, reach)
            output = PlainAttention.apply(q, k, v, bias, options)  # type: ignore[no-untyped-call]
    return output.unsqueeze(0), None


def _for_heads(x: Tensor, heads: int) -> Tensor:
    """[T, fewer heads, features] -> [T, heads, features]: each head, repeated in a row."""
    fewer = x.shape[1]
    if fewer == heads:
        return x
    return x.repeat_interleave(heads // fewer, 1)


AttentionInterface.register(PACKED, packed_attention)
