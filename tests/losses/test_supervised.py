"""The supervised losses: value and gradient against their transcriptions, and closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, mse_loss

from isotune.losses import cosine_embedding, hinged_cosine, info_nce, pair_features
from tests.reference import supervised as reference

LABELS = [0, 1, 2, 1, 0, 2, 1]
ALIKE = torch.tensor([True, False, True, True, False, False, True])
SCORES = [0.0, 5.0, 2.5, 4.0, 1.0, 3.2, 0.4]


def pair_cross_entropy(max_square: bool) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    weight = torch.randn(3, 20 if max_square else 15, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    bias = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)

    def loss(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        logits = linear(pair_features(a, b, max_square), weight.to(a.dtype), bias.to(a.dtype))
        return cross_entropy(logits, torch.tensor(LABELS))

    return loss, lambda a, b, c: reference.pair_cross_entropy(a, b, weight, bias, LABELS, max_square)


def hard_negatives(weight: float) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    return (
        lambda a, b, c: info_nce(a, b, 0.1, c, weight),
        lambda a, b, c: reference.info_nce_hard(a, b, c, 0.1, math.exp(weight)),
    )


def paraphrase(hinge: float) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    signs = [1 if alike else -1 for alike in ALIKE]
    return (
        lambda a, b, c: cosine_embedding(hinged_cosine(a, b, hinge), ALIKE, hinge),
        lambda a, b, c: reference.paraphrase(a, b, signs, hinge),
    )


def similarity(hinge: float) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def loss(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return mse_loss(hinged_cosine(a, b, hinge), hinge + (1 - hinge) * torch.tensor(SCORES, dtype=a.dtype) / 5)

    return loss, lambda a, b, c: reference.similarity(a, b, SCORES, hinge)


@pytest.mark.parametrize(
    "both",
    [
        pair_cross_entropy(False),
        pair_cross_entropy(True),
        hard_negatives(0.0),
        hard_negatives(1.5),
        paraphrase(0.7),
        paraphrase(-1.0),
        similarity(0.0),
        similarity(0.3),
    ],
    ids=["eq2", "max_square", "hard", "weighted", "hinge", "no hinge", "similarity", "raised"],
)
def test_value_and_gradient_equal_the_transcription(both: tuple[Callable[..., Tensor], Callable[..., Tensor]]) -> None:
    loss, transcription = both
    a, b, c = torch.randn(3, 7, 5, dtype=torch.float64).unbind()
    b, c = a + 0.6 * b, a + 2 * c  # cosines on both sides of every hinge
    results = []
    for function, dtype in ((transcription, torch.float64), (loss, torch.float64), (loss, torch.float32)):
        inputs = [v.detach().to(dtype, copy=True).requires_grad_() for v in (a, b, c)]
        value = function(*inputs)
        value.backward()
        gradients = [v.grad.double() for v in inputs if v.grad is not None]
        results.append([value.double(), *gradients])
    expected, double, single = results
    assert len(expected) == len(double) == len(single) >= 3
    for want, got, close in zip(expected, double, single, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(close, want, rtol=1e-5, atol=1e-6)


def test_hard_negatives_double_the_candidates() -> None:
    x = torch.ones(6, 4)
    assert info_nce(x, x, 0.1, x).item() == pytest.approx(math.log(12), rel=1e-6)
    assert info_nce(x, x, 0.1, x, math.log(3)).item() == pytest.approx(math.log(12 + 2), rel=1e-6)


def test_one_hard_negative_gives_the_closed_form() -> None:
    anchor, positive, negative = torch.tensor([[1.0, 0]]), torch.tensor([[3.0, 4]]), torch.tensor([[4.0, 3]])
    expected = math.log(1 + math.exp((0.8 - 0.6) / 0.5 + 0.7))
    assert info_nce(anchor, positive, 0.5, negative, 0.7).item() == pytest.approx(expected, rel=1e-6)


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


def test_pairs_of_equal_vectors_are_alike() -> None:
    x = torch.randn(3, 5)
    cosines = hinged_cosine(x, 2 * x, 0.7)
    assert cosine_embedding(cosines, torch.tensor([True] * 3), 0.7).item() == pytest.approx(0, abs=1e-6)
    assert cosine_embedding(cosines, torch.tensor([False] * 3), 0.7).item() == pytest.approx(0.3, abs=1e-6)


def test_pair_features_of_two_numbers() -> None:
    u, v = torch.tensor([[2.0, -3.0]]), torch.tensor([[5.0, -4.0]])
    assert pair_features(u, v).tolist() == [[2, -3, 5, -4, 3, 1]]
    assert pair_features(u, v, max_square=True).tolist() == [[2, -3, 5, -4, 3, 1, 25, 9]]
