"""The precision of a run, which the machine that starts the run chooses, and float32's products."""

import tomllib
from pathlib import Path

import pytest
import torch

from isotune.engine.step import Optimizer
from isotune.kernels.cpu import float32
from tests.training.conftest import Train, resume, same, stopped_at, weights

setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def machine(has_bfloat16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with or without instructions for bfloat16."""
    for module in ("isotune.kernels.precision", "isotune.training.plan"):
        monkeypatch.setattr(f"{module}.has_bfloat16", lambda device: has_bfloat16)


def taken(run: Path) -> str:
    (stage,) = tomllib.loads((run / "recipe.toml").read_text())["stages"]
    return str(stage["precision"])


def test_the_default_is_what_the_machine_computes_faster_in(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for fast, expected in ((True, "bfloat16"), (False, "float32")):
        machine(fast, monkeypatch)
        run = train(f"auto-{expected}", precision=None, dev="none").folder
        assert taken(run) == expected
        assert f"precision: {expected}\n" in (run / "train.log").read_text()
        runs.append(weights(run))
    assert not same(*runs)


@pytest.mark.parametrize("fast", [True, False])
def test_a_run_goes_on_in_the_precision_that_it_began_with(
    fast: bool, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the machine that resumes it would choose."""
    machine(fast, monkeypatch)
    with stopped_at(6):
        run = train(precision="auto").folder
    machine(not fast, monkeypatch)
    rounded: set[bool] = set()
    forward = torch.nn.Linear.forward

    def watched(self: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        rounded.add(torch.is_autocast_enabled("cpu"))
        return forward(self, x)

    monkeypatch.setattr(torch.nn.Linear, "forward", watched)
    resume(run)
    assert rounded == {True, False} if fast else {False}


def test_a_run_in_slow_bfloat16_says_so(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(False, monkeypatch)
    log = (train(precision="bfloat16", steps=1).folder / "train.log").read_text()
    assert "warning: bfloat16 will be slow" in log


def test_a_run_computes_with_the_fast_products(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(float32, "pays", lambda: True)
    seen: list[str] = []
    denormal = torch.tensor(1e-40)
    step = Optimizer.step

    def watched(self: Optimizer, factor: float) -> None:
        seen.append(setting.fp32_precision)  # after the backward pass, outside of any forward pass
        assert denormal * 1 == 0  # nor do denormal numbers cost time
        step(self, factor)

    monkeypatch.setattr(Optimizer, "step", watched)
    train(steps=2)
    assert seen == ["bf16", "bf16"]
    assert denormal * 1 > 0
    assert setting.fp32_precision == "none"
