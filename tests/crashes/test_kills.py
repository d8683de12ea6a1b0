"""Work that is killed at random moments loses nothing: it ends as if nobody had disturbed it.

`ISOTUNE_KILLS` is how many processes the slow tests kill of each kind of work; `ISOTUNE_SEED` chooses other moments.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crashes.work import WORKS

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("ISOTUNE_KILLS", "25"))
SEED = os.environ.get("ISOTUNE_SEED", "0")


def run(module: str, name: str, count: int) -> dict[str, int]:
    """Runs a module of this folder in a new process, whose libraries have started no thread; returns what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", f"tests.crashes.{module}", name, SEED, str(count)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    print(process.stdout)
    counted: dict[str, int] = json.loads(process.stdout.splitlines()[-1])
    return counted


@pytest.mark.parametrize(
    ("name", "kills"), [("simcse", 3), *(pytest.param(n, KILLS, marks=pytest.mark.slow) for n in WORKS)]
)
def test_killed_work_ends_as_if_undisturbed(name: str, kills: int) -> None:
    assert run("kills", name, kills)["killed"] >= kills
