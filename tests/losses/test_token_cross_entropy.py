"""Cross entropy over a vocabulary: torch's own value and gradient, a closed form, and bfloat16 scores."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from isotune.losses.token_cross_entropy import CHUNK_ROWS, token_cross_entropy


@pytest.mark.parametrize("tokens", [0, 1, CHUNK_ROWS, 3 * CHUNK_ROWS + 5])
def test_value_and_gradient_equal_torch(tokens: int) -> None:
    scores = torch.randn(tokens, 40, dtype=torch.float64)
    targets = torch.randint(40, (tokens,))
    ours, reference = (scores.clone().requires_grad_() for _ in range(2))
    value = 0.5 * token_cross_entropy(ours, targets)
    expected = 0.5 * cross_entropy(reference, targets, reduction="sum")
    value.backward()
    expected.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(ours.grad, reference.grad)


def test_equal_scores_give_the_log_of_the_vocabulary() -> None:
    value = token_cross_entropy(torch.zeros(7, 30), torch.arange(7))
    assert value.item() == pytest.approx(7 * math.log(30), rel=1e-6)


def test_bfloat16_scores_lose_nothing_but_their_own_digits() -> None:
    scores = torch.randn(50, 300).bfloat16().requires_grad_()
    targets = torch.randint(300, (50,))
    value = token_cross_entropy(scores, targets)
    assert value.dtype == torch.float32
    exact = scores.detach().double().requires_grad_()
    expected = cross_entropy(exact, targets, reduction="sum")
    assert value.item() == pytest.approx(expected.item(), rel=1e-6)
    value.backward()
    expected.backward()
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad.double(), exact.grad, rtol=0.01, atol=1e-6)
