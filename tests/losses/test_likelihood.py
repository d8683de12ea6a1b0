"""The likelihoods: of a flow against its transcription, of tokens against torch's own."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from isotune.losses import bits_per_dimension, token_cross_entropy
from isotune.losses.likelihood import CHUNK_ROWS
from tests.reference import flow as reference


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_flows_value_and_gradient_equal_the_transcription(dtype: torch.dtype) -> None:
    z, log_determinants = (
        torch.randn(5, 7, dtype=torch.float64),
        torch.randn(5, dtype=torch.float64),
    )
    x, y = z.to(dtype).requires_grad_(), log_determinants.to(dtype).requires_grad_()
    value = bits_per_dimension(x, y)
    value.backward()
    assert value.item() == pytest.approx(
        reference.bits_per_dimension(z, log_determinants.tolist()), rel=1e-6
    )
    scale = 5 * 7 * math.log(2)
    torch.testing.assert_close(x.grad, z.to(dtype) / scale)  # -d/dz log N(z; 0, 1) is z
    torch.testing.assert_close(y.grad, torch.full((5,), -1 / scale, dtype=dtype))


def test_the_flows_value_is_computed_in_float32_within_autocast() -> None:
    z, zero = torch.randn(50, 64), torch.zeros(())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(bits_per_dimension(z, zero), bits_per_dimension(z.float(), zero))
        assert bits_per_dimension(z.bfloat16(), zero).dtype == torch.float32


@pytest.mark.parametrize("tokens", [0, 1, CHUNK_ROWS, 3 * CHUNK_ROWS + 5])
def test_the_tokens_value_and_gradient_equal_torch(tokens: int) -> None:
    scores = torch.randn(tokens, 40, dtype=torch.float64)
    targets = torch.randint(40, (tokens,))
    ours, theirs = (scores.clone().requires_grad_() for _ in range(2))
    value = 0.5 * token_cross_entropy(ours, targets)
    expected = 0.5 * cross_entropy(theirs, targets, reduction="sum")
    value.backward()
    expected.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


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
    torch.testing.assert_close(scores.grad.double(), exact.grad, rtol=0.01, atol=1e-6)
