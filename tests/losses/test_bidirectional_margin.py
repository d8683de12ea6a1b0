"""The bidirectional margin loss: value and gradient against its transcription, and where it is 0."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from isotune.losses import bidirectional_margin
from tests.reference import sncse as reference


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.3), (0.1, 2.0), (0.0, 0.0)])
def test_value_and_gradient_equal_the_transcription(alpha: float, beta: float) -> None:
    vectors = torch.randn(3, 40, 6, dtype=torch.float64)
    results = []
    for function, dtype in (
        (reference.bidirectional_margin, torch.float64),
        (bidirectional_margin, torch.float64),
        (bidirectional_margin, torch.float32),
    ):
        inputs = [x.to(dtype, copy=True).requires_grad_() for x in vectors]
        value = function(*inputs, alpha, beta)
        value.backward()
        results.append([value.double(), *(x.grad.double() for x in inputs if x.grad is not None)])
    expected, double, single = results
    assert expected[0] > 0
    for want, got, close in zip(expected, double, single, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(close, want, rtol=1e-5, atol=1e-6)


def at(*cosines: float) -> Tensor:
    """Unit vectors [N, 2] with these cosines to (1, 0)."""
    return torch.tensor([[cosine, math.sqrt(1 - cosine**2)] for cosine in cosines], dtype=torch.float64)


@pytest.mark.parametrize(
    ("soft", "loss"),
    [(0.9, 0.1), (0.85, 0.05), (0.8, 0.0), (0.7, 0.0), (0.6, 0.0), (0.5, 0.1), (-0.1, 0.7)],
)
def test_the_loss_is_the_distance_from_the_interval(soft: float, loss: float) -> None:
    value = bidirectional_margin(5 * at(1.0), 2 * at(0.9), 3 * at(soft), alpha=0.1, beta=0.3)
    assert value.item() == pytest.approx(loss, abs=1e-9)


def test_equal_vectors_give_alpha_and_rows_are_averaged() -> None:
    x = torch.ones(3, 4)
    assert bidirectional_margin(x, x, x, 0.1, 0.3).item() == pytest.approx(0.1)
    anchors, positives, soft = at(1.0, 1.0), at(0.9, 0.9), at(0.7, 0.5)
    assert bidirectional_margin(anchors, positives, soft, 0.1, 0.3).item() == pytest.approx(0.05)
