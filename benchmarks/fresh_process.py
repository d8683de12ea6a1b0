"""Measures in fresh processes, so that the peak memory of one measurement does not show in another."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def in_fresh_process(command: Sequence[str], arguments: Any) -> list[float]:
    """Calls a script with "--one" and the arguments as JSON, on one thread; returns the JSON list that it prints."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", *command, "--one", json.dumps(arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    numbers: list[float] = json.loads(process.stdout)
    return numbers


def peak_memory() -> float:
    """The most memory that this process has held so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
