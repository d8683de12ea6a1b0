"""Dropout whose masks cost little on a CPU.

torch draws a random number there for each element, which takes a tenth and more of a training step. Here one draw of
64 bits decides on four elements, 16 bits each, in less than half of the time. So rates are multiples of 2^-16, and what
is kept grows by the exact one. The bits are from torch's own generator: the same seed gives the same masks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

STEPS = 2**16  # values of the bits of an element


def dropout(x: Tensor, rate: float) -> Tensor:
    """Sets elements to 0, each with this probability (below 1), and divides the others by what is left of 1."""
    return x * dropout_factors(x.numel(), rate, x.dtype).view_as(x) if x.is_cpu else nn.functional.dropout(x, rate)


def dropout_factors(count: int, rate: float, dtype: torch.dtype) -> Tensor:
    """What dropout multiplies elements by, on a CPU: [count] of 0 and 1 / (1 - rate)."""
    dropped = min(round(rate * STEPS), STEPS - 1)
    # All 64 bits of a draw: from the lowest number on, without an end.
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
    return (bits >= dropped - STEPS // 2).to(dtype).mul_(STEPS / (STEPS - dropped))


class FastDropout(nn.Dropout):
    """A layer of it."""

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]; while training only."""
        return dropout(x, self.p) if self.training and self.p else x


def replace_dropout(model: nn.Module) -> None:
    """Puts a `FastDropout` in the place of each of torch's."""
    for name, module in list(model.named_modules()):
        if type(module) is nn.Dropout:
            model.set_submodule(name, FastDropout(module.p).train(module.training))
