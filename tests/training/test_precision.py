"""The precision of a run: chosen once, by the machine that starts the run, and kept. How float32 is multiplied."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from isotune.kernels import float32, precision
from isotune.training.optimizer import Optimizer
from tests.training.conftest import Train, resume, same, stopped_at, weights

setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def measures(speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where bfloat16 is so many times as fast."""
    monkeypatch.setattr(precision, "bfloat16_speed", lambda device: speed)


def taken(run: Path) -> str:
    (stage,) = tomllib.loads((run / "recipe.toml").read_text())["stages"]
    return str(stage["precision"])


def test_the_default_is_what_the_machine_multiplies_faster_in(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for speed, expected in ((2.0, "bfloat16"), (0.2, "float32")):
        measures(speed, monkeypatch)
        run = train(f"auto-{expected}", precision=None, dev="none").folder
        assert taken(run) == expected
        assert f"precision: {expected}; this machine multiplies in bfloat16" in (run / "train.log").read_text()
        runs.append(weights(run))
    assert not same(*runs)


@pytest.mark.parametrize("fast", [True, False])
def test_a_run_goes_on_in_the_precision_that_it_began_with(
    fast: bool, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever another measurement would choose."""
    measures(2.0 if fast else 0.1, monkeypatch)
    with stopped_at(6):
        run = train(precision="auto").folder
    measures(0.1 if fast else 2.0, monkeypatch)  # another machine
    rounded: set[bool] = set()
    forward = torch.nn.Linear.forward

    def watched(self: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        rounded.add(torch.is_autocast_enabled("cpu"))
        return forward(self, x)

    monkeypatch.setattr(torch.nn.Linear, "forward", watched)
    resume(run)
    assert rounded == {True, False} if fast else {False}


def test_a_run_in_slow_bfloat16_says_by_how_much(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    measures(0.25, monkeypatch)
    log = (train(precision="bfloat16", steps=1).folder / "train.log").read_text()
    assert "warning: bfloat16 will be slow" in log
    assert "4.0 times" in log


def test_a_run_computes_with_the_fast_products(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float32, "pays", lambda: True)
    seen: list[str] = []
    denormal = torch.tensor(1e-40)
    step = Optimizer.step

    def watched(self: Optimizer, share: float) -> None:
        seen.append(setting.fp32_precision)  # after the backward pass, outside of any forward pass
        assert denormal * 1 == 0  # nor do denormal numbers cost time
        step(self, share)

    monkeypatch.setattr(Optimizer, "step", watched)
    train(steps=2)
    assert seen == ["bf16", "bf16"]
    assert denormal * 1 > 0
    assert setting.fp32_precision == "none"
