"""Every loss: value and gradient against its transcription, closed forms, symmetries."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from isotune.losses import info_nce, nt_xent
from tests.reference import losses as reference

Loss = Callable[[Tensor, Tensor, float], Tensor]
LOSSES: list[tuple[Loss, Loss, Callable[[int], int]]] = [
    (nt_xent, reference.nt_xent, lambda n: 2 * n - 2),
    (info_nce, reference.info_nce, lambda n: n - 1),
]
both = pytest.mark.parametrize(("loss", "transcription", "negatives"), LOSSES, ids=["nt_xent", "info_nce"])


@both
@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
def test_value_and_gradient_equal_the_transcription(
    loss: Loss, transcription: Loss, negatives: Callable[[int], int], temperature: float
) -> None:
    a, b = torch.randn(2, 7, 5, dtype=torch.float64).unbind()
    b = a + 0.3 * b
    results = []
    for function, dtype in ((transcription, torch.float64), (loss, torch.float64), (loss, torch.float32)):
        x, y = (v.detach().to(dtype, copy=True).requires_grad_() for v in (a, b))
        value = function(x, y, temperature)
        value.backward()
        results.append((value.double(), x.grad.double(), y.grad.double()))
    expected, double, single = results
    for want, got, close in zip(expected, double, single, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(close, want, rtol=1e-5, atol=1e-6)


@both
def test_equal_vectors_give_the_log_of_the_candidates(
    loss: Loss, transcription: Loss, negatives: Callable[[int], int]
) -> None:
    x = torch.ones(6, 4)
    assert loss(x, x, 0.1).item() == pytest.approx(math.log(negatives(6) + 1), rel=1e-6)


@both
def test_orthogonal_sentences_give_the_closed_form(
    loss: Loss, transcription: Loss, negatives: Callable[[int], int]
) -> None:
    x = 3 * torch.eye(6)
    assert loss(x, x, 0.5).item() == pytest.approx(reference.orthogonal_views(negatives(6), 0.5), rel=1e-6)


@both
def test_order_and_length_of_vectors_do_not_matter(
    loss: Loss, transcription: Loss, negatives: Callable[[int], int]
) -> None:
    a, b = torch.randn(2, 8, 4).unbind()
    order = torch.randperm(8)
    scale = torch.rand(8, 1) + 0.5
    assert loss(a[order], b[order], 0.1).item() == pytest.approx(loss(a, b, 0.1).item(), rel=1e-5)
    assert loss(a * scale, b, 0.1).item() == pytest.approx(loss(a, b, 0.1).item(), rel=1e-5)


def test_nt_xent_is_symmetric_and_info_nce_is_not() -> None:
    a, b = torch.randn(2, 8, 4).unbind()
    assert nt_xent(a, b, 0.1).item() == pytest.approx(nt_xent(b, a, 0.1).item(), rel=1e-6)
    assert info_nce(a, b, 0.1).item() != pytest.approx(info_nce(b, a, 0.1).item(), rel=1e-3)
