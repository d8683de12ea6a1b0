"""The contrastive losses: what they tell apart, and never more than a block of all similarities."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from isotune.losses import (
    info_nce,
    mirror_info_nce,
    nt_xent,
    self_guided_opt3,
    similarities,
    soft_info_nce,
)

Loss = Callable[[Tensor, Tensor, float], Tensor]
LAYERS = 2


def of_layers(sentences: Tensor, views: Tensor, temperature: float) -> Tensor:
    return self_guided_opt3(sentences, torch.stack([views] * LAYERS, dim=1), temperature)


def with_hard_negatives(queries: Tensor, keys: Tensor, temperature: float) -> Tensor:
    return info_nce(queries, keys, temperature, hard_negatives=queries.flip(0) + keys)


def with_shares(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    return soft_info_nce(first, second, temperature, first.detach(), 0.2)


each = pytest.mark.parametrize(
    "loss", [nt_xent, mirror_info_nce, info_nce, of_layers, with_hard_negatives, with_shares]
)


@pytest.mark.parametrize(
    ("of_first", "learns"), [(False, {nt_xent}), (True, {nt_xent, mirror_info_nce})]
)
def test_which_losses_tell_the_views_of_one_side_apart(of_first: bool, learns: set[Loss]) -> None:
    """Factors (4) and (2) of the self-guided paper.

    With the other side all 0, nothing else is left to learn from.
    """
    for loss in (nt_xent, mirror_info_nce, info_nce):
        vectors, zero = torch.randn(5, 4, requires_grad=True), torch.zeros(5, 4)
        loss(*((vectors, zero) if of_first else (zero, vectors)), 0.1).backward()
        assert bool(vectors.grad.abs().max() > 1e-9) == (loss in learns)


def value_and_gradient(loss: Loss, vectors: Tensor, factor: float = 1.0) -> tuple[Tensor, Tensor]:
    vectors = vectors.clone().requires_grad_()
    value = factor * loss(*vectors.unbind(), 0.05)
    value.backward()
    return value.detach(), vectors.grad


@each
def test_blocks_change_neither_value_nor_gradient(
    loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = torch.randn(2, 11, 5, dtype=torch.float64)
    expected = value_and_gradient(loss, vectors)
    monkeypatch.setattr(similarities, "BLOCK_QUERIES", 4)
    for got, want in zip(value_and_gradient(loss, vectors), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
    value, gradient = value_and_gradient(loss, vectors, factor=-3.0)
    torch.testing.assert_close(value, -3 * expected[0])
    torch.testing.assert_close(gradient, -3 * expected[1])
    with torch.no_grad():
        torch.testing.assert_close(loss(*vectors.unbind(), 0.05), expected[0])


class Largest(TorchDispatchMode):
    """Looks at all tensors that are made within it."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return made


@each
def test_no_more_than_a_block_of_similarities_is_held(loss: Loss) -> None:
    for n in (400, 800):
        with Largest() as largest:
            value_and_gradient(loss, torch.randn(2, n, 2))
        assert largest.elements <= similarities.BLOCK_QUERIES * 2 * n


def test_sharp_shares_leave_a_view_its_counterpart_alone() -> None:
    first, second, references = torch.randn(3, 6, 4, dtype=torch.float64).unbind()
    expected = (info_nce(first, second, 0.1) + info_nce(second, first, 0.1)) / 2
    value = soft_info_nce(first, second, 0.1, references, 1e-4)
    torch.testing.assert_close(value, expected)


def test_equal_references_pull_their_views_together() -> None:
    """Two rows with equal references have equal shares, and the best views of them are equal."""
    references = torch.eye(3, dtype=torch.float64)[[0, 0, 1, 2]]
    apart = torch.eye(4, dtype=torch.float64)
    alike = torch.eye(4, dtype=torch.float64)[[0, 0, 1, 2]]
    losses = [soft_info_nce(views, views, 0.05, references, 0.05) for views in (apart, alike)]
    assert losses[1] < losses[0]
    assert losses[1].item() == pytest.approx(0.5 * math.log(2), abs=1e-6)
