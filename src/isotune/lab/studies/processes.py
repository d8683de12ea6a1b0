"""Worker processes, side by side: each makes one run after another.

A worker is `python -m isotune.lab.studies.processes`. Each line of its standard input is a `Job`, and each line of its
standard output says how the run ended: why it failed, "" if it did not, or null if it was stopped. All lines are JSON.
A worker ends at once when its input ends, which happens too when the study that drives it is killed.

The workers are started by hand because no executor does what a study needs. With loky and with concurrent.futures, a
worker that dies fails every run and does not say which run killed it, and workers survive a study that was killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO

import torch

from isotune.errors import InputError
from isotune.kernels.memory import tune_process
from isotune.lab.studies.job import Job, Stopped, make
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

        def work(job: Job) -> str | None:
            worker = idle.get()
            try:
                return None if stop.received or not admit(job) else worker.make(job, stop)
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
                        self._send(signal.SIGTERM)  # asks each worker to stop after the step that it is in
                    for future in done:
                        if (problem := future.result()) is not None:
                            yield futures[future], problem
            except BaseException:
                self._send(signal.SIGKILL)
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _send(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.process:
                worker.process.send_signal(number)


class _Worker:
    """A worker process. If it has died, the next run starts another one."""

    def __init__(self, environment: Mapping[str, str], log: IO[str]) -> None:
        self._environment, self._log = environment, log
        self.process: subprocess.Popen[str] | None = None

    def make(self, job: Job, stop: StopSignal) -> str | None:
        """Has the worker make a run; returns the reason of its failure, "" if there is none, or None if it stopped."""
        if self.process is None or self.process.poll() is not None:
            self.close()
            # The session of its own keeps a terminal's Ctrl-C away from the worker.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "isotune.lab.studies.processes"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=self._environment,
                text=True,
                start_new_session=True,
            )
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # a dead worker's pipe is broken
            print(json.dumps(job.model_dump(mode="json")), file=process.stdin, flush=True)
        if line := process.stdout.readline():
            answer: str | None = json.loads(line)
            return answer
        code = process.wait()
        if stop.received:
            return None
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        hint = ", perhaps because memory ran out: use fewer processes" if how.endswith("SIGKILL") else ""
        return f"its process {how}{hint}; {self._log.name} may say more"

    def close(self) -> None:
        """Ends the worker's input, and waits for its end."""
        if self.process:
            with suppress(BrokenPipeError), self.process:  # closes the pipes and waits
                pass


def main() -> None:
    """The worker: makes runs until the input ends."""
    tune_process()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print belongs in the log
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the study, which stops its workers by SIGTERM
    lines: SimpleQueue[str] = SimpleQueue()
    Thread(target=_read_input, args=(lines,), daemon=True).start()
    while True:
        answer = _answer(Job.model_validate_json(lines.get()))
        print(json.dumps(answer), file=answers, flush=True)


def _read_input(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def _answer(job: Job) -> str | None:
    try:
        make(job)
    except Stopped:
        return None
    except (InputError, OSError) as error:
        return str(error)
    except Exception as error:  # the other runs go on, whatever went wrong in this one
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    main()
