"""A reference from one module to another that does not belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Borrowed(Generic[M]):
    """Refers to a module that another module has. torch does not look in here: it trains, saves and moves it once."""

    module: M
