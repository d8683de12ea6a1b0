"""The losses of pairs: where they are 0, and where they have no gradient."""

import math

import pytest
import torch
from torch import Tensor

from isotune.losses import cosent, cosine_embedding, hinged_cosine


def at(*cosines: float) -> Tensor:
    """Unit vectors [N, 2] with these cosines to (1, 0)."""
    return torch.tensor([[cosine, math.sqrt(1 - cosine**2)] for cosine in cosines], dtype=torch.float64)


def test_below_the_hinge_there_is_no_gradient() -> None:
    a = torch.tensor([[1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    b = torch.tensor([[0.0, 1.0], [1.0, 0.5]])  # cosines 0 and 0.894
    cosines = hinged_cosine(a, b, 0.7)
    assert cosines.tolist() == pytest.approx([0.7, 1 / math.sqrt(1.25)])
    loss = cosine_embedding(cosines, torch.tensor([True, True]), 0.7)
    assert loss.item() == pytest.approx((0.3 + 1 - 1 / math.sqrt(1.25)) / 2)
    loss.backward()
    assert a.grad is not None
    assert a.grad[0].tolist() == [0, 0]
    assert a.grad[1].abs().max() > 0


def test_cosent_counts_the_pairs_of_another_order() -> None:
    a, scores = at(1.0, 1.0, 1.0, 1.0).requires_grad_(), torch.tensor([2.0, 0.0, 2.0, 1.0])
    assert cosent(a, at(0.4, 0.4, 0.4, 0.4), scores, 20.0).item() == pytest.approx(math.log(1 + 5))
    assert cosent(a, at(0.9, 0.1, 0.9, 0.5), scores, 1000.0).item() == pytest.approx(0, abs=1e-12)  # the right order
    assert cosent(a, at(-1, 1, -1, 1), scores, 1e6).item() == pytest.approx(2e6)  # no overflow
    tied = cosent(a, at(0.9, 0.1, 0.9, 0.5), torch.ones(4), 20.0)
    tied.backward()
    assert (tied.item(), a.grad.abs().max().item()) == (0, 0)
