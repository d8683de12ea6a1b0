"""A normalising flow and its likelihood, feature by feature in float64.

`Weights` are the state_dict of a `NormalizingFlow`.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]


def actnorm(x: list[float], weights: Weights, name: str) -> list[float]:
    """s x + b as BERT-flow's code has it.

    The bias comes first, then a scale whose logarithm is 3 times what is learned.
    """
    bias, log_scale = weights[f"{name}.bias"].tolist(), weights[f"{name}.log_scale"].tolist()
    return [(v + b) * math.exp(3 * s) for v, b, s in zip(x, bias, log_scale, strict=True)]


def linear(x: list[float], weight: Tensor) -> list[float]:
    return [sum(w * v for w, v in zip(row, x, strict=True)) for row in weight.tolist()]


def mix(x: list[float], weights: Weights, name: str) -> list[float]:
    """The features reversed; or W x with W = P L (U + diag(s)) (Glow, equation 10)."""
    if f"{name}.permutation" not in weights:
        return x[::-1]
    d = len(x)
    lower, upper = weights[f"{name}.lower"], weights[f"{name}.upper"]
    s = weights[f"{name}.sign"] * weights[f"{name}.log_s"].exp()
    p = torch.zeros(d, d, dtype=torch.float64)
    l_matrix, u_matrix = torch.eye(d, dtype=torch.float64), torch.diag(s)
    for i in range(d):
        p[i, weights[f"{name}.permutation"][i]] = 1.0
        for j in range(d):
            if j < i:
                l_matrix[i, j] = lower[i, j]
            if j > i:
                u_matrix[i, j] = upper[i, j]
    return linear(x, p @ l_matrix @ u_matrix)


def couple(x: list[float], weights: Weights, name: str) -> list[float]:
    """y_1 = x_1, y_2 = x_2 + net(x_1), with floor(d / 2) features in x_1."""
    half = len(x) // 2
    h = x[:half]
    for layer in (0, 3, 6):
        h = actnorm(
            linear(h, weights[f"{name}.shift.{layer}.weight"]), weights, f"{name}.shift.{layer + 1}"
        )
        if layer < 6:
            h = [max(0.0, v) for v in h]
    return x[:half] + [v + shift for v, shift in zip(x[half:], h, strict=True)]


def flow(x: Sequence[float], weights: Weights, levels: int, depth: int) -> list[float]:
    """z of one vector: after each level but the last, the second half of it is finished."""
    rest, finished = list(x), []
    for level in range(levels):
        for step in range(level * depth, (level + 1) * depth):
            rest = actnorm(rest, weights, f"steps.{step}.norm")
            rest = mix(rest, weights, f"steps.{step}.mixing")
            rest = couple(rest, weights, f"steps.{step}.coupling")
        if level < levels - 1:
            half = len(rest) // 2
            finished += rest[half:]
            rest = rest[:half]
    return finished + rest


def bits_per_dimension(z: Tensor, log_determinants: Sequence[float]) -> float:
    """-log2 of the density of every vector [N, d], divided by d; the mean."""
    total = 0.0
    for row, log_determinant in zip(z.tolist(), log_determinants, strict=True):
        log_density = (
            sum(-v * v / 2 - math.log(math.sqrt(2 * math.pi)) for v in row) + log_determinant
        )
        total -= log_density / math.log(2) / len(row)
    return total / len(z)
