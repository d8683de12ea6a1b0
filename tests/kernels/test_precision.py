"""Which number type a machine multiplies faster in: by measurement, which leaves no trace."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.kernels import precision
from isotune.kernels.precision import bfloat16_speed, compare_bfloat16, faster_precision, warn_of_bfloat16
from isotune.kernels.timing import ROUNDS, least_seconds


def measures(speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "bfloat16_speed", lambda device: speed)


@pytest.mark.parametrize(
    ("speed", "expected"), [(8.0, "bfloat16"), (1.9, "bfloat16"), (1.1, "float32"), (0.2, "float32")]
)
def test_bfloat16_is_taken_where_it_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, speed: float, expected: str
) -> None:
    measures(speed, monkeypatch)
    assert faster_precision("cpu") == expected


def test_how_much_slower_bfloat16_is(monkeypatch: pytest.MonkeyPatch) -> None:
    measures(0.2, monkeypatch)
    comparison = "this machine multiplies in bfloat16 5.0 times more slowly than in float32"
    assert warn_of_bfloat16("cpu") == f"bfloat16 will be slow: {comparison}"
    measures(1.9, monkeypatch)
    assert warn_of_bfloat16("cpu") == ""
    assert compare_bfloat16("cpu") == "this machine multiplies in bfloat16 1.9 times as fast as in float32"


def test_an_encoder_that_is_loaded_in_slow_bfloat16_says_so(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    measures(0.5, monkeypatch)
    with caplog.at_level(logging.WARNING):
        Encoder.load(tiny_model, device="cpu")
        assert caplog.messages == []
        Encoder.load(tiny_model, precision="bfloat16", device="cpu")
    assert caplog.messages == ["bfloat16 will be slow: " + compare_bfloat16("cpu")]


def test_the_measurement_leaves_no_trace() -> None:
    setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    state = torch.get_rng_state()
    with torch.autocast("cpu", torch.bfloat16):
        assert bfloat16_speed.__wrapped__("cpu") > 0
    assert setting.fp32_precision == "none"
    assert torch.equal(torch.get_rng_state(), state)


def test_ways_take_turns_on_one_thread_and_the_fastest_round_counts() -> None:
    torch.set_num_threads(2)
    turns: list[str] = []

    def slow() -> None:
        assert torch.get_num_threads() == 1
        turns.append("slow")
        time.sleep(0.004 if len(turns) == 1 else 0.002)

    try:
        quick, slept = least_seconds(lambda: turns.append("quick"), slow)
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError):
            least_seconds(lambda: 1 // 0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert turns == ["quick", "slow"] * ROUNDS
    assert quick < 0.002 <= slept
