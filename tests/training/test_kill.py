"""Kill -9 at random moments of a real run, resume, compare with the run that nobody disturbed. Takes minutes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

COMMAND = [sys.executable, "-m", "isotune", "train"]
RUN = ["stsb-open:train", "--method", "simcse", "--tasks", "stsb-open", "--precision", "float32"]
RUN += ["--steps", "24", "--batch-size", "16", "--eval-every", "4"]


def start(*arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*COMMAND, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """An uninterrupted run of the bundled model, and the seconds it took."""
    out = tmp_path_factory.mktemp("kill") / "whole"
    began = time.monotonic()
    assert start(*RUN, "--out", str(out)).wait() == 0
    return out, time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_run_killed_at_a_random_moment_ends_with_the_same_weights(
    whole: tuple[Path, float], tmp_path: Path, seed: int
) -> None:
    reference, seconds = whole
    out = tmp_path / "parts"
    process = start(*RUN, "--out", str(out))
    time.sleep(random.Random(seed).uniform(0, seconds))
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not (out / "recipe.toml").exists():  # nothing to resume yet: the same command is given again
        shutil.rmtree(out, ignore_errors=True)
        assert start(*RUN, "--out", str(out)).wait() == 0
    elif not (out / "report.html").exists():
        assert start("--out", str(out), "--resume").wait() == 0
    for name in ("encoder/model.safetensors", "last.safetensors"):
        ours, theirs = load_file(out / name), load_file(reference / name)
        assert ours.keys() == theirs.keys()
        assert all((ours[key] == theirs[key]).all() for key in theirs), name
