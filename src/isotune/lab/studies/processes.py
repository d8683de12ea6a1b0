"""Worker processes, side by side: each makes one run after another.

The workers are started by hand because no executor does what a study needs. With loky and with concurrent.futures, a
worker that dies fails every run and does not say which run killed it, and workers survive a study that was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO

import torch

from isotune.lab.studies.job import Job
from isotune.lab.studies.worker import Answer
from isotune.training.interrupt import StopSignal

MOST = 4  # default number of processes without a GPU: each holds a model


class Processes:
    """Processes that make runs. Each is started when it is first needed.

    Attributes:
        count: the number of processes.
        threads: the threads of each process.
    """

    def __init__(self, log: Path, count: int | None = None, threads: int | None = None) -> None:
        """Opens the log of all processes.

        Args:
            log: the file that the processes' messages go to.
            count: None for one process a GPU; without a GPU, one a core, at most `MOST`.
            threads: None for the processes' equal share of the cores.
        """
        gpus, cores = torch.cuda.device_count(), os.cpu_count() or 1
        self.count = count or gpus or min(cores, MOST)
        self.threads = threads or max(1, cores // self.count)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
        limits = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
        self._log = log.open("a", encoding="utf-8")
        self._workers = [
            _Worker({**os.environ, **limits, "CUDA_VISIBLE_DEVICES": visible[i % len(visible)]}, self._log)
            for i in range(self.count)
        ]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._workers:
            worker.close()
        self._log.close()

    def make(self, jobs: Sequence[Job], stop: StopSignal, admit: Callable[[Job], bool]) -> Iterator[tuple[Job, str]]:
        """Makes runs side by side. After a signal, stops those that are being made and begins no others.

        Args:
            jobs: the runs, in the order in which they begin.
            stop: the signal.
            admit: called for each run when it could begin; False leaves it out.

        Yields:
            Each run that ended without being stopped, with the reason of its failure or "".
        """
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            idle.put(worker)

        def work(job: Job) -> Answer:
            worker = idle.get()
            try:
                return Answer(stopped=True) if stop.received or not admit(job) else worker.make(job)
            finally:
                idle.put(worker)

        with ThreadPoolExecutor(self.count) as threads:
            futures = {threads.submit(work, job): job for job in jobs}
            waiting, told = set(futures), False
            try:
                while waiting:
                    done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                    if stop.received and not told:
                        told = True
                        for worker in self._workers:
                            worker.stop()
                    for future in done:
                        answer = future.result()
                        if not (answer.stopped or (stop.received and answer.died)):
                            yield futures[future], answer.problem
            except BaseException:
                for worker in self._workers:
                    worker.kill()
                threads.shutdown(wait=False, cancel_futures=True)
                raise


class _Worker:
    """A worker process. If it has died, the next run starts another one."""

    def __init__(self, environment: Mapping[str, str], log: IO[str]) -> None:
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def make(self, job: Job) -> Answer:
        """Has the worker make a run, and waits for the answer."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            # The session of its own keeps a terminal's Ctrl-C away from the worker.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "isotune.lab.studies.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=self._environment,
                text=True,
                start_new_session=True,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # a dead worker's pipe is broken
            print(job.model_dump_json(), file=process.stdin, flush=True)
        if line := process.stdout.readline():
            return Answer.model_validate_json(line)
        code = process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        hint = ", perhaps because memory ran out: use fewer processes" if how.endswith("SIGKILL") else ""
        return Answer(problem=f"its process {how}{hint}; {self._log.name} may say more", died=True)

    def stop(self) -> None:
        """Asks the worker to stop after the step that it is in."""
        if self._process:
            self._process.terminate()

    def kill(self) -> None:
        """Ends the worker at once."""
        if self._process:
            self._process.kill()

    def close(self) -> None:
        """Ends the worker's input, and waits for its end."""
        if self._process is None:
            return
        with self._process as process:  # closes the pipes and waits
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
