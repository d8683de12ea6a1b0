"""Runs side by side, each in one of a few processes that stay; see `worker.py`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import torch

from isotune.lab.studies.worker import Job
from isotune.training.interrupt import StopSignal

MOST = 4  # processes without a GPU, where nothing is said: each holds a model


class Processes:
    """Processes that make runs, started when they are first needed.

    Attributes:
        count: how many there are.
        threads: of each.
    """

    def __init__(self, log: Path, count: int | None = None, threads: int | None = None) -> None:
        """Unset: a process a GPU, or else a core, but no more than `MOST`; as many threads as their share of cores."""
        gpus, cores = torch.cuda.device_count(), os.cpu_count() or 1
        self.count = count or gpus or min(cores, MOST)
        self.threads = threads or max(1, cores // self.count)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
        limits = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
        self._file = log.open("a", encoding="utf-8")
        self._all = [
            _Process({**os.environ, **limits, "CUDA_VISIBLE_DEVICES": visible[i % len(visible)]}, self._file)
            for i in range(self.count)
        ]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._all:
            process.close()
        self._file.close()

    def make(
        self,
        jobs: Sequence[Job],
        stop: StopSignal,
        done: Callable[[Job, str], None],
        admit: Callable[[Job], bool] = lambda job: True,
    ) -> None:
        """Makes these runs, those that `admit` lets begin when their turn comes.

        `done` is told of each that has ended, with what went wrong or "". After a signal the runs that are being made
        are stopped, and no others begun; of those `done` isn't told.
        """
        idle: SimpleQueue[_Process] = SimpleQueue()
        for process in self._all:
            idle.put(process)

        def work(job: Job) -> Mapping[str, Any]:
            process = idle.get()
            try:
                return {"stopped": True} if stop.received or not admit(job) else process.make(job)
            finally:
                idle.put(process)

        with ThreadPoolExecutor(self.count) as threads:
            futures = {threads.submit(work, job): job for job in jobs}
            left, told = set(futures), False
            try:
                while left:
                    ended, left = wait(left, timeout=0.2, return_when=FIRST_COMPLETED)
                    if stop.received and not told:
                        told = True
                        for process in self._all:
                            process.signal(signal.SIGTERM)
                    for future in ended:
                        answer = future.result()
                        if not (answer.get("stopped") or (stop.received and answer.get("died"))):
                            done(futures[future], answer.get("error", ""))
            except BaseException:
                for process in self._all:
                    process.signal(signal.SIGKILL)
                threads.shutdown(wait=False, cancel_futures=True)
                raise


class _Process:
    """A worker; another is started where it has died."""

    def __init__(self, environment: Mapping[str, str], log: IO[str]) -> None:
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def make(self, job: Job) -> Mapping[str, Any]:
        """Has a run made; the worker's answer, or what became of the worker."""
        process = self._process
        if process is None or process.poll() is not None:
            self.close()
            # In a session of its own, so that a Ctrl-C at the terminal reaches the study alone.
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "isotune.lab.studies.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=self._environment,
                text=True,
                start_new_session=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            print(json.dumps(job.model_dump(), default=str), file=process.stdin, flush=True)
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        hint = ", perhaps for want of memory: take fewer processes" if code == -signal.SIGKILL else ""
        return {"died": True, "error": f"its process {how}{hint}; {self._log.name} may say more"}

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal, if it runs."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def close(self) -> None:
        """Ends it."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
