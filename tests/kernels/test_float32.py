"""Which library computes float32 products: both are exact, and the setting is put back afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.kernels import float32
from isotune.kernels.float32 import fast_float32, pays_packed

setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


@pytest.fixture
def pays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has every machine choose oneDNN."""
    monkeypatch.delenv("ISOTUNE_FLOAT32", raising=False)
    monkeypatch.setattr(float32, "measured", lambda: (2.0, 0.0))
    assert setting.fp32_precision == "none"
    yield
    assert setting.fp32_precision == "none"


@pytest.mark.parametrize("choice", ["auto", "torch", "onednn"])
@pytest.mark.parametrize("rows", [1, 17, 512])
def test_products_and_gradients_are_those_of_float64(monkeypatch: pytest.MonkeyPatch, choice: str, rows: int) -> None:
    monkeypatch.setenv("ISOTUNE_FLOAT32", choice)
    results = []
    inputs, gradient = [torch.randn(rows, 96), torch.randn(80, 96), torch.randn(80)], torch.randn(rows, 80)
    for dtype in (torch.float32, torch.float64):
        leaves = [x.to(dtype, copy=True).requires_grad_() for x in inputs]
        with fast_float32():
            y = torch.nn.functional.linear(*leaves)
            results.append([y, *torch.autograd.grad(y, leaves, gradient.to(dtype))])
    for result, exact in zip(*results, strict=True):
        assert (result.double() - exact).norm() < 1e-6 * exact.norm()


@pytest.mark.parametrize(
    ("choice", "times", "error", "onednn", "packed"),
    [
        ("auto", 2.1, 4e-7, True, True),
        ("auto", 1.1, 4e-7, False, False),  # as fast
        ("auto", 8.0, 2e-3, False, False),  # by leaving float32
        ("onednn", 1.1, 4e-7, True, True),
        ("onednn", 8.0, 2e-3, False, False),
        ("torch", 2.1, 4e-7, False, False),
    ],
)
def test_onednn_is_taken_where_it_is_exact_and_faster_or_chosen(
    monkeypatch: pytest.MonkeyPatch, choice: str, times: float, error: float, onednn: bool, packed: bool
) -> None:
    monkeypatch.setenv("ISOTUNE_FLOAT32", choice)
    monkeypatch.setattr(float32, "measured", lambda: (times, error))
    with fast_float32():
        assert (setting.fp32_precision == "bf16") is onednn
    assert setting.fp32_precision == "none"
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert pays_packed() is packed
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert pays_packed() is (choice != "torch")  # packed weights alone make the difference


def test_an_unknown_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTUNE_FLOAT32", "mkl")
    with pytest.raises(InputError, match="unknown ISOTUNE_FLOAT32 'mkl'"), fast_float32():
        pass
    assert setting.fp32_precision == "none"


@pytest.mark.usefixtures("pays")
def test_the_last_block_to_close_puts_the_setting_back() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with fast_float32():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with fast_float32():
        with fast_float32():
            thread.start()
            assert inside.wait(10)
        assert setting.fp32_precision == "bf16"
    assert setting.fp32_precision == "bf16"  # of the other thread
    leave.set()
    thread.join()
    with pytest.raises(ZeroDivisionError), fast_float32():  # an error puts the setting back too: see `pays`
        raise ZeroDivisionError


@pytest.mark.usefixtures("pays")
def test_an_encoder_computes_with_onednn(tiny_model: Path) -> None:
    encoder = Encoder.load(tiny_model, device="cpu")
    seen = set()
    for module in encoder.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda *_: seen.add(setting.fp32_precision))
    encoder.encode(["a cat plays"])
    assert seen == {"bf16"}


def test_the_measurement_changes_no_setting_and_ignores_autocast() -> None:
    state = torch.get_rng_state()
    _, error = float32.measured.__wrapped__()
    with torch.autocast("cpu", torch.bfloat16):
        assert float32.measured.__wrapped__()[1] == error
    assert setting.fp32_precision == "none"
    assert torch.equal(torch.get_rng_state(), state)
