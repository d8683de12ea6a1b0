"""CoSENT: where it is 0, and that it does not overflow."""

import math

import pytest
import torch
from torch import Tensor

from isotune.losses import cosent


def at(*cosines: float) -> Tensor:
    """Unit vectors [N, 2] with these cosines to (1, 0)."""
    return torch.tensor([[cosine, math.sqrt(1 - cosine**2)] for cosine in cosines], dtype=torch.float64)


def test_cosent_counts_the_pairs_of_another_order() -> None:
    a, scores = at(1.0, 1.0, 1.0, 1.0).requires_grad_(), torch.tensor([2.0, 0.0, 2.0, 1.0])
    assert cosent(a, at(0.4, 0.4, 0.4, 0.4), scores, 20.0).item() == pytest.approx(math.log(1 + 5))
    assert cosent(a, at(0.9, 0.1, 0.9, 0.5), scores, 1000.0).item() == pytest.approx(0, abs=1e-12)  # the right order
    assert cosent(a, at(-1, 1, -1, 1), scores, 1e6).item() == pytest.approx(2e6)  # no overflow
    tied = cosent(a, at(0.9, 0.1, 0.9, 0.5), torch.ones(4), 20.0)
    tied.backward()
    assert (tied.item(), a.grad.abs().max().item()) == (0, 0)
