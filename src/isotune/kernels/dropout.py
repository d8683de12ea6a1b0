"""Dropout with cheap random masks on a CPU.

On a CPU, torch draws a random number for each element, which takes a tenth of a training step or more. Here a draw of
64 bits decides on four elements, by 16 bits each, in less than half of the time. So rates are rounded to multiples of
2^-16, and kept elements are scaled by the rounded rate. The bits come from torch's generator: a seed fixes the masks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

STEPS = 2**16  # values that an element's bits can have


def dropout(x: Tensor, rate: float) -> Tensor:
    """Sets each element to 0 with probability `rate` (below 1), and divides the others by 1 - rate."""
    return x * dropout_factors(x.numel(), rate, x.dtype).view_as(x) if x.is_cpu else nn.functional.dropout(x, rate)


def dropout_factors(count: int, rate: float, dtype: torch.dtype) -> Tensor:
    """Draws the factors that dropout multiplies elements by, on a CPU: [count] of 0 and 1 / (1 - rate)."""
    dropped = min(round(rate * STEPS), STEPS - 1)
    # From the lowest int64, without an upper bound: all 64 bits are random.
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
    return (bits >= dropped - STEPS // 2).to(dtype).mul_(STEPS / (STEPS - dropped))


class FastDropout(nn.Dropout):
    """A dropout layer that uses `dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        """Drops elements of a tensor of any shape, in training only."""
        return dropout(x, self.p) if self.training and self.p else x


def replace_dropout(model: nn.Module) -> None:
    """Replaces each of torch's dropout layers by a `FastDropout`."""
    for name, module in list(model.named_modules()):
        if type(module) is nn.Dropout:
            model.set_submodule(name, FastDropout(module.p).train(module.training))
