"""BERT-CF's InfoNCE: value and gradient against its transcription, closed forms, and what it is of NT-Xent."""

from __future__ import annotations

import math

import pytest
import torch

from isotune.losses import mirror_info_nce, nt_xent
from tests.reference import mirror as reference
from tests.reference.losses import orthogonal_views


@pytest.mark.parametrize("temperature", [0.04, 0.1, 1.0])
def test_value_and_gradient_equal_the_transcription(temperature: float) -> None:
    a = torch.randn(7, 5, dtype=torch.float64)
    b = a + 0.3 * torch.randn(7, 5, dtype=torch.float64)
    results = []
    for function, dtype in (
        (reference.mirror_info_nce, torch.float64),
        (mirror_info_nce, torch.float64),
        (mirror_info_nce, torch.float32),
    ):
        x, y = (v.to(dtype, copy=True).requires_grad_() for v in (a, b))
        value = function(x, y, temperature)
        value.backward()
        results.append((value.double(), x.grad.double(), y.grad.double()))  # type: ignore[union-attr]
    expected, double, single = results
    for want, got, close in zip(expected, double, single, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(close, want, rtol=1e-5, atol=1e-6)


def test_equal_vectors_give_the_log_of_2n_minus_1() -> None:
    x = torch.ones(6, 4)
    assert mirror_info_nce(x, x, 0.1).item() == pytest.approx(math.log(11), rel=1e-6)
    x = 3 * torch.eye(6)
    assert mirror_info_nce(x, x, 0.5).item() == pytest.approx(orthogonal_views(10, 0.5), rel=1e-6)


def test_both_directions_together_are_nt_xent() -> None:
    a, b = torch.randn(2, 8, 4)
    forth, back = mirror_info_nce(a, b, 0.1), mirror_info_nce(b, a, 0.1)
    assert forth.item() != pytest.approx(back.item(), rel=1e-3)
    assert (forth + back).item() / 2 == pytest.approx(nt_xent(a, b, 0.1).item(), rel=1e-6)
