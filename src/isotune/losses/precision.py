"""Losses compute in float32, whatever the layers around them compute in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import torch
from torch import Tensor

P = ParamSpec("P")


def in_float32(loss: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Makes a loss compute bfloat16 vectors in float32, also under autocast.

    Bfloat16 cosines are too coarse to compare once they are divided by a small temperature.
    """

    @wraps(loss)
    def computed(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        device = next(value.device.type for value in args if isinstance(value, Tensor))
        exact = [v.float() if isinstance(v, Tensor) and v.dtype == torch.bfloat16 else v for v in args]
        with torch.autocast(device, enabled=False):
            return loss(*exact, **kwargs)  # type: ignore[arg-type]

    return computed
