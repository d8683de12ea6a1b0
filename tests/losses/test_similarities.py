"""Losses of all similarities, some queries at a time: the same, and never all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from isotune.losses import info_nce, mirror_info_nce, nt_xent, self_guided_opt1, self_guided_opt3, similarities

LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "nt_xent": lambda a, b, c: nt_xent(a, b, 0.05),
    "info_nce": lambda a, b, c: info_nce(a, b, 0.05),
    "info_nce with hard negatives": lambda a, b, c: info_nce(a, b, 0.05, c, hard_negative_weight=2.0),
    "mirror_info_nce": lambda a, b, c: mirror_info_nce(a, b, 0.05),
    "self_guided_opt1": lambda a, b, c: self_guided_opt1(a, b, 0.05),
    "self_guided_opt3": lambda a, b, c: self_guided_opt3(a, torch.stack([b, c], dim=1), 0.05),
}
every = pytest.mark.parametrize("name", LOSSES)


def value_and_gradient(name: str, vectors: Tensor, factor: float = 1.0) -> tuple[Tensor, Tensor]:
    vectors = vectors.clone().requires_grad_()
    value = factor * LOSSES[name](*vectors)
    value.backward()
    assert vectors.grad is not None
    return value.detach(), vectors.grad


@every
def test_blocks_change_neither_value_nor_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = torch.randn(3, 11, 5, dtype=torch.float64)
    expected = value_and_gradient(name, vectors)
    monkeypatch.setattr(similarities, "BLOCK_QUERIES", 4)
    for got, want in zip(value_and_gradient(name, vectors), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
    value, gradient = value_and_gradient(name, vectors, factor=-3.0)
    torch.testing.assert_close(value, -3 * expected[0])
    torch.testing.assert_close(gradient, -3 * expected[1])
    with torch.no_grad():
        torch.testing.assert_close(LOSSES[name](*vectors), expected[0])


class Largest(TorchDispatchMode):
    """Looks at all tensors that are made within it."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return made


@every
def test_no_more_than_a_block_of_similarities_is_held(name: str) -> None:
    for n in (400, 800):
        with Largest() as largest:
            value_and_gradient(name, torch.randn(3, n, 2))
        assert largest.elements <= similarities.BLOCK_QUERIES * 2 * n
