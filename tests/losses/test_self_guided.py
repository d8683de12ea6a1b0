"""The self-guided objectives: value and gradient against their transcription, and closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from isotune.losses import info_nce, nt_xent
from isotune.losses.self_guided import self_guided_opt1, self_guided_opt3
from tests.reference import self_guided as reference

Loss = Callable[[Tensor, Tensor, float], Tensor]
LAYERS = 4
# Its name, the loss, its transcription, whether it takes a view of every layer, the negatives of a sentence among n.
LOSSES: list[tuple[str, Loss, Loss, bool, Callable[[int], int]]] = [
    ("base", nt_xent, reference.base, False, lambda n: 2 * n - 2),
    ("opt1", self_guided_opt1, reference.opt1, False, lambda n: 2 * n - 2),
    ("opt2", info_nce, reference.opt2, False, lambda n: n - 1),
    ("opt3", self_guided_opt3, reference.opt3, True, lambda n: (n - 1) * LAYERS),
]
every = pytest.mark.parametrize(
    ("loss", "transcription", "layers", "negatives"), [row[1:] for row in LOSSES], ids=[row[0] for row in LOSSES]
)


def vectors(n: int, layers: bool, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Random c [n, 5], and h near them."""
    c = torch.randn(n, 5, dtype=dtype)
    h = c[:, None] + 0.4 * torch.randn(n, LAYERS, 5, dtype=dtype)
    return c, h if layers else h[:, 0]


@every
@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0])
def test_value_and_gradient_equal_the_transcription(
    loss: Loss, transcription: Loss, layers: bool, negatives: Callable[[int], int], temperature: float
) -> None:
    c, h = vectors(5, layers)
    results = []
    for function, dtype in ((transcription, torch.float64), (loss, torch.float64), (loss, torch.float32)):
        x, y = (v.detach().to(dtype, copy=True).requires_grad_() for v in (c, h))
        value = function(x, y, temperature)
        value.backward()
        results.append((value.double(), x.grad.double(), y.grad.double()))
    expected, double, single = results
    for want, got, close in zip(expected, double, single, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
        # The similarities' own rounding, divided by the temperature, is what float32 can't do better than.
        torch.testing.assert_close(close, want, rtol=1e-5, atol=1e-6 / temperature)


@every
def test_equal_vectors_give_the_log_of_the_candidates(
    loss: Loss, transcription: Loss, layers: bool, negatives: Callable[[int], int]
) -> None:
    c = torch.ones(6, 4)
    h = torch.ones(6, LAYERS, 4) if layers else c
    assert loss(c, h, 0.01).item() == pytest.approx(math.log(negatives(6) + 1), rel=1e-5)


@every
def test_orthogonal_sentences_give_the_closed_form(
    loss: Loss, transcription: Loss, layers: bool, negatives: Callable[[int], int]
) -> None:
    c = 3 * torch.eye(6)
    h = c[:, None].expand(6, LAYERS, 6) if layers else c
    assert loss(c, h, 0.5).item() == pytest.approx(math.log(1 + negatives(6) * math.exp(-1 / 0.5)), rel=1e-6)


@every
def test_the_order_of_the_sentences_and_the_length_of_vectors_do_not_matter(
    loss: Loss, transcription: Loss, layers: bool, negatives: Callable[[int], int]
) -> None:
    c, h = vectors(7, layers, torch.float32)
    expected = pytest.approx(loss(c, h, 0.1).item(), rel=1e-5)
    order = torch.randperm(7)
    assert loss(c[order], h[order], 0.1).item() == expected
    assert loss(c * (torch.rand(7, 1) + 0.5), h * 3, 0.1).item() == expected


def test_only_the_base_objective_makes_views_of_different_sentences_differ() -> None:
    """Factor (4): with the c all 0 nothing but h against h is left to learn from, and only base has it."""
    c, h = torch.zeros(5, 4), torch.randn(5, 4)
    for loss, expected in ((nt_xent, True), (self_guided_opt1, False), (info_nce, False)):
        views = h.clone().requires_grad_()
        loss(c, views, 0.1).backward()
        assert bool(views.grad.abs().max() > 1e-9) == expected


def test_only_base_and_opt1_make_sentence_vectors_differ_from_each_other() -> None:
    """Factor (2): with the h all 0 nothing but c against c is left to learn from."""
    c, h = torch.randn(5, 4), torch.zeros(5, 4)
    for loss, expected in ((nt_xent, True), (self_guided_opt1, True), (info_nce, False)):
        sentences = c.clone().requires_grad_()
        loss(sentences, h, 0.1).backward()
        assert bool(sentences.grad.abs().max() > 1e-9) == expected


def test_with_one_layer_opt3_is_opt2() -> None:
    c, h = vectors(6, layers=False)
    torch.testing.assert_close(self_guided_opt3(c, h[:, None], 0.05), info_nce(c, h, 0.05))


def test_the_order_of_the_layers_does_not_matter_to_opt3() -> None:
    c, h = vectors(6, layers=True)
    torch.testing.assert_close(self_guided_opt3(c, h.flip(1), 0.05), self_guided_opt3(c, h, 0.05))
