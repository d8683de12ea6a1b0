"""Packed weights change nothing but the speed, and are gone after their block."""

import pytest
import torch
from torch import nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertIntermediate

from isotune.kernels.cpu.prepacked import _works, prepacked


@pytest.fixture
def _onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computes float32 through oneDNN on every machine."""
    monkeypatch.setattr("isotune.kernels.cpu.prepacked.pays_packed", lambda: True)


@pytest.mark.usefixtures("_onednn")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_weights_give_the_same_numbers(dtype: torch.dtype, bias: bool) -> None:
    if not _works(dtype):
        pytest.skip(f"there are no packed weights in {dtype} here")
    model = nn.Sequential(
        nn.Linear(24, 40, bias=bias, dtype=dtype), nn.GELU(), nn.Linear(40, 8, dtype=dtype)
    )
    x = torch.randn(1, 50, 24).to(dtype)
    with torch.no_grad():
        exact = model(x)
        with prepacked(model):
            assert "forward" in vars(model[0])
            torch.testing.assert_close(
                model(x), exact, rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-5
            )
        assert "forward" not in vars(model[0])
        with pytest.raises(ZeroDivisionError), prepacked(model):
            raise ZeroDivisionError
        assert "forward" not in vars(model[0])
        model[2].weight.zero_()
        with prepacked(model):
            assert torch.equal(model(x), model[2].bias.expand(1, 50, 8))


@pytest.mark.usefixtures("_onednn")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("activation", "together"), [("gelu", True), ("gelu_new", False)])
def test_the_gelu_of_an_intermediate_layer_is_included(
    dtype: torch.dtype, activation: str, together: bool
) -> None:
    if not _works(dtype):
        pytest.skip(f"there are no packed weights in {dtype} here")
    config = BertConfig(hidden_size=24, intermediate_size=96, hidden_act=activation)
    model = BertIntermediate(config).to(dtype)
    x = 4 * torch.randn(1, 50, 24).to(dtype)
    with torch.no_grad():
        exact = model(x)
        with prepacked(model):
            assert ("forward" in vars(model)) == together
            assert ("forward" in vars(model.dense)) != together
            torch.testing.assert_close(
                model(x), exact, rtol=1e-5 if dtype == torch.float32 else 2e-2, atol=1e-2
            )
        assert "forward" not in vars(model)


def test_nothing_is_packed_where_it_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotune.kernels.cpu.prepacked.pays_packed", lambda: False)
    model = nn.Linear(8, 8)
    half = nn.Linear(8, 8, dtype=torch.float16)
    with prepacked(model), prepacked(half):
        assert "forward" not in vars(model)
        assert "forward" not in vars(half)
