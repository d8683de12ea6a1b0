"""A run's products go where float32 is fast, backward too, and the setting is put back after it."""

from __future__ import annotations

import pytest
import torch

from isotune.kernels import float32
from isotune.training.optimizer import Optimizer
from tests.training.conftest import Train

setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def test_a_run_computes_with_the_fast_products(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float32, "pays", lambda: True)
    seen: list[str] = []
    denormal = torch.tensor(1e-40)
    step = Optimizer.step

    def watched(self: Optimizer, share: float) -> None:
        seen.append(setting.fp32_precision)  # after the backward pass, outside of any forward pass
        assert denormal * 1 == 0  # nor do denormal numbers cost time
        step(self, share)

    monkeypatch.setattr(Optimizer, "step", watched)
    train(steps=2)
    assert seen == ["bf16", "bf16"]
    assert denormal * 1 > 0
    assert setting.fp32_precision == "none"
