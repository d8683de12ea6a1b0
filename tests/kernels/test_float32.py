"""Which library computes float32 products; oneDNN is exact too, and the setting is put back."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.kernels.cpu import float32
from isotune.kernels.cpu.float32 import fast_float32, pays_packed

setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


@pytest.fixture
def pays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has every machine choose oneDNN."""
    monkeypatch.setattr(float32, "pays", lambda: True)
    assert setting.fp32_precision == "none"
    yield
    assert setting.fp32_precision == "none"


@pytest.mark.usefixtures("pays")
@pytest.mark.skipif(
    torch.cpu.get_capabilities().get("amx_bf16", False), reason="oneDNN leaves float32 on this CPU"
)
@pytest.mark.parametrize("rows", [1, 17, 512])
def test_products_and_gradients_are_those_of_float64(rows: int) -> None:
    results = []
    inputs, gradient = (
        [torch.randn(rows, 96), torch.randn(80, 96), torch.randn(80)],
        torch.randn(rows, 80),
    )
    for dtype in (torch.float32, torch.float64):
        leaves = [x.to(dtype, copy=True).requires_grad_() for x in inputs]
        with fast_float32():
            y = torch.nn.functional.linear(*leaves)
            results.append([y, *torch.autograd.grad(y, leaves, gradient.to(dtype))])
    for result, exact in zip(*results, strict=True):
        assert (result.double() - exact).norm() < 1e-6 * exact.norm()


@pytest.mark.parametrize(
    ("vendor", "amx", "onednn"),
    [("AuthenticAMD", False, True), ("AuthenticAMD", True, False), ("Intel", False, False)],
)
def test_onednn_is_taken_on_cpus_of_amd_as_long_as_it_is_exact_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vendor: str, amx: bool, onednn: bool
) -> None:
    monkeypatch.setattr(float32, "CPUS", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(f"vendor_id : {vendor}\n")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": amx})
    assert float32.pays.__wrapped__() is onednn


@pytest.mark.parametrize(("capability", "packed"), [("AVX2", False), ("AVX512", True)])
def test_weights_are_packed_with_avx_512_alone(
    monkeypatch: pytest.MonkeyPatch, capability: str, packed: bool
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert pays_packed() is packed


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
    with (
        pytest.raises(ZeroDivisionError),
        fast_float32(),
    ):  # an error puts the setting back too: see `pays`
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
