"""Which number type a machine multiplies faster in: by measurement, which leaves no trace."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
import torch

from isotune.encoder.encoder import Encoder
from isotune.kernels import precision
from isotune.kernels.precision import (
    ROUNDS,
    bfloat16_speed,
    compare_bfloat16,
    faster_precision,
    least_seconds,
    warn_of_bfloat16,
)


@pytest.mark.parametrize(
    ("speed", "expected", "times"),
    [(8.0, "bfloat16", "8.0 times as fast"), (1.1, "float32", "1.1 times as fast"), (0.2, "float32", "5.0 times more")],
)
def test_bfloat16_is_taken_where_it_is_clearly_faster_and_warned_of_where_it_is_slower(
    speed: float,
    expected: str,
    times: str,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(precision, "bfloat16_speed", lambda device: speed)
    assert faster_precision("cpu") == expected
    assert times in compare_bfloat16("cpu")
    assert (times in warn_of_bfloat16("cpu")) == (speed < 1)
    with caplog.at_level(logging.WARNING):
        Encoder.load(tiny_model, device="cpu")
        assert caplog.messages == []
        Encoder.load(tiny_model, precision="bfloat16", device="cpu")
    assert caplog.messages == [warn_of_bfloat16("cpu")] * (speed < 1)


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
