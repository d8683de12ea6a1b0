"""The precision of a run: chosen once, by the machine that starts the run, and kept."""

from __future__ import annotations

import os
import signal
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import isotune
from isotune.kernels import float32, precision
from isotune.training import Result
from isotune.training.step import Stepper

Train = Callable[..., Result]


def measures(speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "bfloat16_speed", lambda device: speed)


def taken(run: Path) -> str:
    (stage,) = tomllib.loads((run / "recipe.toml").read_text())["stages"]
    return str(stage["precision"])


def same(a: Path, b: Path) -> bool:
    ours, theirs = (load_file(run / "last.safetensors") for run in (a, b))
    return all((ours[key] == theirs[key]).all() for key in theirs)


def test_the_default_is_what_the_machine_multiplies_faster_in(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {}
    for speed, expected in ((2.0, "bfloat16"), (0.2, "float32")):
        measures(speed, monkeypatch)
        run = train(f"auto-{expected}", precision=None).folder
        assert taken(run) == expected
        assert f"precision: {expected}; this machine multiplies in bfloat16" in (run / "train.log").read_text()
        assert same(run, train(expected, precision=expected).folder)
        runs[expected] = run
    assert not same(*runs.values())


def test_a_run_goes_on_in_the_precision_that_it_began_with(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measures(2.0, monkeypatch)
    whole = train("whole", precision="auto").folder
    update = Stepper.update

    def interrupted(self: Stepper, number: int) -> Any:
        if number == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return update(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "update", interrupted)
        train("parts", precision="auto")
    measures(0.2, monkeypatch)  # another machine
    isotune.train(out=tmp_path / "parts", resume=True, quiet=True)
    assert taken(tmp_path / "parts") == "bfloat16"
    assert same(tmp_path / "parts", whole)


@pytest.mark.parametrize("exact_and_faster", [True, False])
def test_a_run_goes_on_with_the_products_that_it_began_with(
    exact_and_faster: bool, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All products of float32, in training and evaluation, whatever another measurement would choose."""

    def chooses(onednn: bool) -> None:
        monkeypatch.setattr(float32, "measured", lambda: (9.0 if onednn else 0.1, 0.0))

    seen: set[str] = set()
    forward = torch.nn.Linear.forward

    def watched(self: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        seen.add(torch.backends.mkldnn.matmul.fp32_precision)  # type: ignore[attr-defined]
        return forward(self, x)

    monkeypatch.delenv("ISOTUNE_FLOAT32", raising=False)
    chooses(exact_and_faster)
    update = Stepper.update

    def interrupted(self: Stepper, number: int) -> Any:
        if number == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return update(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "update", interrupted)
        train("parts")
    chooses(not exact_and_faster)
    monkeypatch.setattr(torch.nn.Linear, "forward", watched)
    isotune.train(out=tmp_path / "parts", resume=True, quiet=True)
    assert seen == {"bf16" if exact_and_faster else "none"}


def test_a_run_in_slow_bfloat16_says_by_how_much(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    measures(0.25, monkeypatch)
    log = (train(precision="bfloat16").folder / "train.log").read_text()
    slower = "this machine multiplies in bfloat16 4.0 times more slowly than in float32"
    assert f"warning: bfloat16 will be slow: {slower}" in log
