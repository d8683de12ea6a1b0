"""Linear layers in 8-bit integers: the rounding, its cost in precision, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation import evaluate
from isotune.kernels.cpu.int8 import Int8Linear, is_exact, quantize

pytestmark = pytest.mark.skipif(not is_exact(), reason="this machine doesn't multiply 8-bit integers exactly")


def rounded(vector: list[float], largest: int) -> tuple[list[int], float]:
    """Rounds numbers to integers from -largest to largest; returns these and their scale."""
    scale = max(abs(value) for value in vector) / largest or 1.0
    return [round(value / scale) for value in vector], scale


def reference(x: Tensor, linear: nn.Linear) -> Tensor:
    """Computes [N, out] in float64 from [N, in], product by product."""
    rows = [rounded(row, 126) for row in x.tolist()]
    columns = [rounded(row, 127) for row in linear.weight.tolist()]
    bias = [0.0] * len(columns) if linear.bias is None else linear.bias.tolist()
    return torch.tensor(
        [
            [s * t * sum(a * b for a, b in zip(q, v, strict=True)) + c for (v, t), c in zip(columns, bias, strict=True)]
            for q, s in rows
        ],
        dtype=torch.float64,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_multiplies_rounded_weights_by_rounded_input(bias: bool, dtype: torch.dtype) -> None:
    linear = nn.Linear(48, 24, bias=bias)
    with torch.no_grad():
        linear.weight[3] = 0
        linear.weight[5] *= 100
    x = (torch.randn(7, 48) * torch.logspace(-3, 3, 7)[:, None]).to(dtype)
    x[2] = 0
    layer = Int8Linear(linear, dtype)
    y, exact = layer(x), linear(x.float())
    assert y.dtype == dtype
    if dtype == torch.float32:
        torch.testing.assert_close(y.double(), reference(x, linear), rtol=1e-5, atol=1e-6)
    assert (y - exact).norm() < 0.05 * exact.norm()
    torch.testing.assert_close(layer(x.view(7, 1, 48)), y[:, None])
    for x in torch.randn(9, 1, 48).to(dtype):  # a thread keeps the last rounded input
        fresh = Int8Linear(linear, dtype)(x.clone())
        assert torch.equal(layer(x), fresh)
        assert torch.equal(layer(x), fresh)


def test_no_rounded_number_is_too_large() -> None:
    largest = torch.linspace(1, 2, 2001).to(torch.bfloat16).unique()
    x = torch.stack([largest, -largest], dim=1)  # [n, 2]
    linear = nn.Linear(2, 2, bias=False)
    linear.weight.data = torch.eye(2)
    y = Int8Linear(linear, torch.bfloat16)(x)
    torch.testing.assert_close(y, x, rtol=0.02, atol=0)


@pytest.mark.parametrize("fast", [True, False])
def test_an_encoder_in_int8_is_close_to_float32(
    fast: bool, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.kernels.precision.has_bfloat16", lambda device: fast)
    exact = Encoder.load(tiny_model).encode(sentences, normalize=True)
    encoder = Encoder.load(tiny_model, precision="int8")
    model = encoder.backbone.model
    assert not any(isinstance(module, nn.Linear) for module in model.modules())
    assert sum(isinstance(module, Int8Linear) for module in model.modules()) == 3 * 6
    assert model.dtype == (torch.bfloat16 if fast else torch.float32)
    cosines = (exact * encoder.encode(sentences, normalize=True)).sum(1)
    assert 0.999 < cosines.min() < cosines.max() <= 1.0001
    assert not np.array_equal(encoder.encode(sentences, normalize=True), exact)


@pytest.mark.slow
def test_scores_hardly_change_on_a_real_model(real_data: Path, real_models: Path) -> None:
    folder = real_models / "bert-tiny"
    exact, coarse = (Encoder.load(folder, precision=precision) for precision in ("float32", "int8"))
    scores = [evaluate(encoder, ["stsb"]).tasks[0].spearman.all for encoder in (exact, coarse)]
    assert scores[0] == pytest.approx(scores[1], abs=0.005)


def test_bfloat16_is_the_type_of_the_weights(tiny_model: Path, sentences: list[str]) -> None:
    encoder = Encoder.load(tiny_model, precision="bfloat16")
    assert {parameter.dtype for parameter in encoder.backbone.parameters()} == {torch.bfloat16}
    exact = Encoder.load(tiny_model).encode(sentences, normalize=True)
    assert (exact * encoder.encode(sentences, normalize=True)).sum(1).min() > 0.999


def test_int8_is_refused_on_a_gpu_in_saving_and_on_unfit_cpus(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="int8 can't be saved"):
        Encoder.load(tiny_model, precision="int8").save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    with pytest.raises(InputError, match="precision int8 on cuda: it is for CPUs"):
        Encoder.load(tiny_model, precision="int8", device="cuda")
    monkeypatch.setattr("isotune.kernels.cpu.int8.is_exact", lambda: False)
    with pytest.raises(InputError, match="use float32 or bfloat16"):
        quantize(nn.Sequential(nn.Linear(2, 2)))
