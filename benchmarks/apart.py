"""Measurements in processes of their own: what one has held, another's peak doesn't show."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def apart(command: Sequence[str], arguments: Any) -> list[float]:
    """What a script prints that is called with "--one" and these arguments in JSON, on one thread."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command, "--one", json.dumps(arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found: list[float] = json.loads(done.stdout)
    return found


def peak() -> float:
    """The most memory this process has held so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
