"""WK pooling: a sentence vector from all layers, without training.

The source is "SBERT-WK" (Wang and Kuo, 2020, section IV). First, a token's states in several layers
become one vector. A layer weighs more if the layers around it, two on each side, say less about it
(section IV-A). Then the sentence's tokens are averaged. A token weighs more if it changes more
unevenly from layer to layer (section IV-B). For the state v of a layer and the states c of the
layers around it,

    alignment  a = 1 / mean of cos(v, c)
    novelty    n = |the part of v that is orthogonal to all c| / |v|
    layer      w = a / (sum of a over the layers) + n / (sum of n over the layers)
    token      u = variance of the cosines of neighbouring layers

w is scaled to sum 1 over the layers, u over the tokens. QR decompositions give both parts of w
(section IV-C).

The first and last layers have fewer layers around them. The authors' code (`released`) differs
there: it takes no layer below the second one, and divides a by the number of layers in the window.
It also compares c with v's projection on all layers of the window. Both leave out the last token,
[SEP], unless the sentence has no other. A gradient takes the weights as constants.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from isotune.data.packed import Packed
from isotune.kernels.device import has_float64

# The layers on each side; the authors' choice.
WINDOW = 2


def wk_pooling(states: Sequence[Tensor], tokens: Packed, *, released: bool = False) -> Tensor:
    """Fuses the hidden states [T, d] of three or more layers to [N, d], in packed order.

    Lower layers come first.
    """
    x = torch.stack(list(states), dim=1)  # [T, L, d]
    if not has_float64(x.device):
        # The weights need float64.
        return wk_pooling(x.cpu().unbind(1), tokens.to("cpu"), released=released).to(x.device)
    layers, importance = _weights(x.detach(), released)  # [T, L], [T]
    lengths = tokens.lengths[tokens.cpu_segments]  # [T]
    # The last token, unless it is alone.
    left_out = tokens.on_device((tokens.cpu_positions == lengths - 1) & (lengths > 1))  # [T]
    importance = torch.where(left_out, 0.0, importance)
    total = importance.new_zeros(len(tokens)).index_add(0, tokens.segments, importance)  # [N]
    shares = (importance / total[tokens.segments]).to(x.dtype)  # [T]
    fused = torch.einsum("tl,tld->td", layers.to(x.dtype), x)  # [T, d]
    vectors = x.new_zeros(len(tokens), x.shape[2])
    return vectors.index_add(0, tokens.segments, shares[:, None] * fused)


def _weights(x: Tensor, released: bool) -> tuple[Tensor, Tensor]:
    """Computes the layers' shares of each token, and the tokens' importance.

    From states [T, L, d], the results are [T, L] and [T], in float64.
    """
    # Written in an orthonormal basis of its L states, a token's states have L numbers each, and the
    # same geometry.
    _, columns = torch.linalg.qr(x.double().mT, mode="r")  # [T, L, L]
    unit = normalize(columns, dim=1)  # [T, L, L]
    cosines = unit.mT @ unit  # [T, L, L]
    count = x.shape[1]
    alignments = []
    novelties = []
    for layer in range(count):
        around = _layers_around(layer, count, released)
        _, r = torch.linalg.qr(unit[:, :, [*around, layer]], mode="r")  # [T, n + 1, n + 1]
        # The states have length 1.
        novelty = r[:, -1, -1].abs()  # [T]
        projection = torch.ones_like(novelty)  # [T]
        if released:
            projection = (1 - novelty.square()).sqrt() / (len(around) + 1)  # [T]
        novelties.append(novelty)
        alignments.append(projection / cosines[:, layer, around].mean(1))
    by_alignment = normalize(torch.stack(alignments, dim=1), p=1, dim=1)  # [T, L]
    by_novelty = normalize(torch.stack(novelties, dim=1), p=1, dim=1)  # [T, L]
    layers = normalize(by_alignment + by_novelty, p=1, dim=1)  # [T, L]
    importance = cosines.diagonal(1, 1, 2).var(1, correction=0)  # [T]
    return layers, importance


def _layers_around(layer: int, count: int, released: bool) -> list[int]:
    """The layers in the window around a layer, without the layer itself."""
    lowest = max(0, layer - WINDOW)
    if released and layer < WINDOW:
        lowest = layer
    highest = min(count - 1, layer + WINDOW)
    return [other for other in range(lowest, highest + 1) if other != layer]
