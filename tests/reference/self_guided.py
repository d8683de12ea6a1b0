"""The self-guided objectives, sum by sum as sections 3.1 and 3.2 write them; f is the identity here."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.reference.losses import sim


def phi(u: Tensor, v: Tensor, temperature: float) -> Tensor:
    return torch.exp(sim(u, v) / temperature)


def base(c: Tensor, h: Tensor, temperature: float) -> Tensor:
    b = len(c)
    x = [*c, *h]  # 0 to b - 1 are the c, b to 2b - 1 the h
    total = torch.zeros((), dtype=torch.float64)
    for m in range(2 * b):
        mu = m + b if m < b else m - b
        z = torch.zeros((), dtype=torch.float64)
        for n in range(2 * b):
            if n != m:
                z = z + phi(x[m], x[n], temperature)
        total = total - torch.log(phi(x[m], x[mu], temperature) / z)
    return total / (2 * b)


def opt1(c: Tensor, h: Tensor, temperature: float) -> Tensor:
    b = len(c)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(b):
        z = torch.zeros((), dtype=torch.float64)
        for j in range(b):
            if j != i:
                z = z + phi(c[i], c[j], temperature)
        for j in range(b):
            z = z + phi(c[i], h[j], temperature)
        total = total - torch.log(phi(c[i], h[i], temperature) / z)
    return total / b


def opt2(c: Tensor, h: Tensor, temperature: float) -> Tensor:
    b = len(c)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(b):
        z = torch.zeros((), dtype=torch.float64)
        for j in range(b):
            z = z + phi(c[i], h[j], temperature)
        total = total - torch.log(phi(c[i], h[i], temperature) / z)
    return total / b


def opt3(c: Tensor, h: Tensor, temperature: float) -> Tensor:
    """h: [b, l + 1, d]."""
    b, layers = h.shape[:2]
    total = torch.zeros((), dtype=torch.float64)
    for i in range(b):
        for k in range(layers):
            z = phi(c[i], h[i, k], temperature)
            for m in range(b):
                if m != i:
                    for n in range(layers):
                        z = z + phi(c[i], h[m, n], temperature)
            total = total - torch.log(phi(c[i], h[i, k], temperature) / z)
    return total / (b * layers)


def regularizer(tuned: list[Tensor], fixed: list[Tensor]) -> Tensor:
    """L^reg: the squared L2 distance of all weights from where they started."""
    total = torch.zeros((), dtype=torch.float64)
    for weight, start in zip(tuned, fixed, strict=True):
        total = total + ((weight.double() - start.double()) ** 2).sum()
    return total
