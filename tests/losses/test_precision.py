"""Losses that compare vectors do so in float32, though the layers before them compute in bfloat16."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from isotune.losses import (
    bidirectional_margin,
    hinged_cosine,
    info_nce,
    mirror_info_nce,
    nt_xent,
    self_guided_opt1,
    self_guided_opt3,
)

LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "nt_xent": lambda a, b, c: nt_xent(a, b, 0.05),
    "info_nce": lambda a, b, c: info_nce(a, b, 0.05),
    "info_nce with hard negatives": lambda a, b, c: info_nce(a, b, 0.05, c),
    "mirror_info_nce": lambda a, b, c: mirror_info_nce(a, b, 0.05),
    "self_guided_opt1": lambda a, b, c: self_guided_opt1(a, b, 0.05),
    "self_guided_opt3": lambda a, b, c: self_guided_opt3(a, torch.stack([b, c], dim=1), 0.05),
    "bidirectional_margin": lambda a, b, c: bidirectional_margin(a, b, c, 0.1, 0.3),
    "hinged_cosine": lambda a, b, c: hinged_cosine(a, b, 0.0),
}


@pytest.mark.parametrize("name", LOSSES)
def test_autocast_changes_nothing(name: str) -> None:
    loss = LOSSES[name]
    a, b, c = torch.randn(3, 9, 64).bfloat16().unbind()
    expected = loss(a.float(), b.float(), c.float())
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(a, b, c)
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
