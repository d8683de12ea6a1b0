"""Masked language modelling, token by token: BERT's head and the loss (BERT, section 3.1 and its published code)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def gelu(x: Tensor) -> Tensor:
    """x times the normal distribution's share below x."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def word_scores(state: Tensor, head: Mapping[str, Tensor], words: Tensor, epsilon: float) -> list[Tensor]:
    """The score of every word for one token's state [d]: dense, gelu, layer norm, then the tied decoder."""
    hidden = [(row * state).sum() + bias for row, bias in zip(head["dense.weight"], head["dense.bias"], strict=True)]
    hidden = [gelu(x) for x in hidden]
    mean = sum(hidden) / len(hidden)
    variance = sum((x - mean) ** 2 for x in hidden) / len(hidden)
    scaled = torch.stack(
        [
            (x - mean) / (variance + epsilon) ** 0.5 * scale + shift
            for x, scale, shift in zip(hidden, head["LayerNorm.weight"], head["LayerNorm.bias"], strict=True)
        ]
    )
    return [(word * scaled).sum() + bias for word, bias in zip(words, head["bias"], strict=True)]


def mlm(scores: Sequence[Sequence[Tensor]], targets: Sequence[int]) -> Tensor:
    """The mean over masked tokens of -log softmax of the true word's score."""
    total = torch.zeros((), dtype=torch.float64)
    for row, target in zip(scores, targets, strict=True):
        total = total - torch.log(row[target].exp() / sum(score.exp() for score in row))
    return total / len(targets)
