"""A study that is stopped: no run that was made is repeated."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import hear_interrupts, until

Write = Callable[[dict[str, Any]], Path]


def start(path: Path, out: Path, model: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "isotune",
        "study",
        str(path),
        "--out",
        str(out),
        "--model",
        str(model),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (out.parent / "log").open("ab") as file:
        return subprocess.Popen(
            command, env=environment, stderr=file, stdout=file, preexec_fn=hear_interrupts
        )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_stopped_study_repeats_no_run(
    table: dict[str, Any], write: Write, tiny_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    table["options"] |= {"steps": 60, "eval_every": 5}
    path, out = write(table), tmp_path / "out"
    runs = out / "runs"
    process = start(path, out, tiny_model)
    until(
        lambda: len([*runs.glob("*/result.json")]) >= 3 and any(runs.glob("*/last.safetensors")),
        300,
    )
    before = {path: path.stat().st_mtime_ns for path in runs.glob("*/result.json")}
    process.send_signal(number)
    assert process.wait() == (130 if number == signal.SIGINT else -number)
    assert len([*runs.glob("*/metrics.jsonl")]) < 8
    assert start(path, out, tiny_model).wait() == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len([*runs.glob("*/metrics.jsonl")]) == 8
    assert (out / "study.html").exists()
