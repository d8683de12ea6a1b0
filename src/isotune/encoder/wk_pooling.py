"""WK pooling: a sentence vector from all layers, without training ("SBERT-WK", Wang and Kuo, 2020, section IV).

A token's states in several layers become one vector: a layer weighs the more, the less the layers around it, two on
each side, tell of it (section IV-A). Then the sentence's tokens are averaged: a token weighs the more,
the more unevenly it changes from layer to layer (section IV-B). For the state v of a layer and the states c of the
layers around it,

    alignment  a = 1 / mean of cos(v, c)
    novelty    n = |the part of v that is orthogonal to all c| / |v|
    layer      w = a / (sum of a over the layers) + n / (sum of n over the layers)
    token      u = variance of the cosines of neighbouring layers

and w over the layers, u over the tokens are scaled to sum 1. Both parts of w come out of QR decompositions, as in the
paper's section IV-C.

At the first and last layers the window has what there is of it; the authors' code loses the one layer below the
second, and compares c with v's projection on all of them. Their code leaves out the last token, [SEP], and so does
this, except where it is the only one. The weights are constants to a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from isotune.data.packed import Packed

WINDOW = 2  # layers on each side; the authors' choice


def wk_layers(blocks: int) -> tuple[int, ...]:
    """The layers that are fused: from the fourth block on, as the authors' code has it, but three at least."""
    return tuple(range(min(4, blocks - 2), blocks + 1))


def wk_pooling(states: Sequence[Tensor], tokens: Packed) -> Tensor:
    """Fuses layers, then averages tokens.

    Args:
        states: hidden states [T, d] of L layers, the lower ones first; 3 or more, or nothing varies.
        tokens: the batch they belong to.

    Returns:
        [N, d], in packed order.
    """
    x = torch.stack(list(states), dim=1)  # [T, L, d]
    layers, importance = _weights(x.detach())  # [T, L], [T]
    last = tokens.positions == tokens.lengths[tokens.segments] - 1  # [T]
    alone = tokens.lengths[tokens.segments] == 1  # [T]
    importance = torch.where(last & ~alone, 0.0, importance)
    total = importance.new_zeros(len(tokens)).index_add(0, tokens.segments, importance)  # [N]
    shares = (importance / total[tokens.segments]).to(x.dtype)  # [T]
    fused = torch.einsum("tl,tld->td", layers.to(x.dtype), x)  # [T, d]
    return x.new_zeros(len(tokens), x.shape[2]).index_add(0, tokens.segments, shares[:, None] * fused)


def _weights(x: Tensor) -> tuple[Tensor, Tensor]:
    """The layers' shares of each token [T, L] and the tokens' importance [T], in float64, from states [T, L, d]."""
    # In an orthonormal basis of its own L states, a token's states are columns of L numbers with the same geometry.
    _, columns = torch.linalg.qr(x.double().mT, mode="r")  # [T, L, L]
    unit = normalize(columns, dim=1)  # [T, L, L]
    cosines = unit.mT @ unit  # [T, L, L]
    count = x.shape[1]
    alignment, novelty = [], []
    for layer in range(count):
        around = [k for k in range(max(0, layer - WINDOW), min(count, layer + WINDOW + 1)) if k != layer]
        alignment.append(1 / cosines[:, layer, around].mean(1))  # [T]
        _, r = torch.linalg.qr(unit[:, :, [*around, layer]], mode="r")  # [T, n + 1, n + 1]
        novelty.append(r[:, -1, -1].abs())  # [T]; of a state of length 1
    shares = [normalize(torch.stack(parts, dim=1), p=1, dim=1) for parts in (alignment, novelty)]  # [T, L] each
    return normalize(shares[0] + shares[1], p=1, dim=1), cosines.diagonal(1, 1, 2).var(1, correction=0)
