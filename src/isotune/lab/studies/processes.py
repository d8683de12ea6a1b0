"""Runs as processes: one process makes one run, and some processes run at the same time.

A process is `python -m isotune.lab.studies.job`. The first line of its standard input is the `Job` as JSON. Its exit
code is 0 if the run is done. What it prints is in RUNS/KEY.log, and the last line there says why the run failed.

A process ends at once when its standard input ends. So no process is left of a study that was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch

from isotune.lab.studies.job import Job

COMMAND = (sys.executable, "-m", "isotune.lab.studies.job")
MOST = 4  # processes at a time without a GPU: each holds a model
PAUSE = 0.05  # seconds between two looks at the processes


class Processes:
    """The processes of a study. All of them are killed when the `with` block ends.

    Attributes:
        count: how many run at the same time.
        threads: the threads of each.
    """

    def __init__(self, count: int | None = None, threads: int | None = None) -> None:
        """Starts nothing yet.

        Args:
            count: None for one process a GPU; without a GPU, one a core, at most `MOST`.
            threads: None for the processes' equal share of the cores.
        """
        gpus, cores = torch.cuda.device_count(), os.cpu_count() or 1
        self.count = count or gpus or min(cores, MOST)
        self.threads = threads or max(1, cores // self.count)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
        self._devices = [visible[i % len(visible)] for i in range(self.count)]  # one for each process that may start
        self._running: dict[subprocess.Popen[bytes], tuple[Job, str]] = {}  # with the device of each

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._running:
            process.kill()
        for process in self._running:
            with process:  # waits, and closes the pipe
                pass

    @property
    def may_start(self) -> bool:
        """Whether fewer processes run than may."""
        return bool(self._devices)

    def start(self, job: Job) -> None:
        """Starts to make a run."""
        device = self._devices.pop(0)
        limits = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
        with _log(job).open("ab") as log:
            process = subprocess.Popen(
                COMMAND,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **limits, "CUDA_VISIBLE_DEVICES": device},
                start_new_session=True,  # keeps a terminal's Ctrl-C away
            )
        self._running[process] = job, device
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the process has died; `wait` says so
            process.stdin.write(job.model_dump_json().encode() + b"\n")

    def wait(self) -> tuple[Job, str]:
        """Waits until a run ends; gives the run, and the reason of its failure or ""."""
        while not (ended := [process for process in self._running if process.poll() is not None]):
            time.sleep(PAUSE)
        with ended[0] as process:
            job, device = self._running.pop(process)
        self._devices.append(device)
        return job, _problem(_log(job), process.returncode)


def _log(job: Job) -> Path:
    return job.folder.with_name(f"{job.folder.name}.log")


def _problem(log: Path, code: int) -> str:
    """Why a run failed, by its process's log and exit code; "" if it did not. The log stays only if it did."""
    if code == 0:
        log.unlink(missing_ok=True)  # another study may have made the same run
        return ""
    if code > 0:
        return log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
    name = signal.Signals(-code).name
    hint = ", perhaps because memory ran out: use fewer processes" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{hint}; {log} may say more"
