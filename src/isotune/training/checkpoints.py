"""The checkpoints of a stage: the weights to keep, and everything from which a run goes on."""

import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict

from isotune.engine.step import Parts
from isotune.training.recorder import RunContext
from isotune.training.run_folder import (
    LAST,
    Progress,
    remove_former_best,
    save_tensors,
    tensors_of,
)

SHARE_OF_TIME = 0.05
"""The share of the time that checkpoints may take. One of BERT-base has 1.3 GB."""


class Checkpoints:
    """Writes the checkpoints of a stage.

    From a GPU, the weights are copied, and a thread writes them beside the steps.

    A checkpoint names the file of the weights kept so far. That file is deleted only when a later
    checkpoint, which names another, is whole.
    """

    def __init__(
        self,
        run: RunContext,
        progress: Progress,
        parts: Parts,
        kept_parts: Parts,
        left_out: Collection[str],
        *,
        in_thread: bool,
        records_seconds: bool,
    ) -> None:
        """Takes the parts of a checkpoint, and those whose weights are kept.

        Tensors that are `left_out` are made again by a resumed run. `in_thread` says whether a
        thread writes. `records_seconds` says whether a checkpoint tells how long the run has taken.
        """
        self._run = run
        self._progress = progress
        self._parts = parts
        self._kept_parts = kept_parts
        self._left_out = left_out
        self._in_thread = in_thread
        self._records_seconds = records_seconds
        self._writer = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None
        # When the last checkpoint was written, how long that took, and which kept weights it names.
        self._written = time.perf_counter()
        self._seconds = 0.0
        self._named = progress.best_file

    def keep(self) -> None:
        """Writes the weights of the step to keep, under the name that the progress has for them."""
        self.wait()
        save_tensors(self._run.folder / self._progress.best_file, tensors_of(self._kept_parts))

    def write_if_cheap(self) -> None:
        """Writes a checkpoint, unless the last one took much (`SHARE_OF_TIME`) of the time since.

        At the end of the stage, a checkpoint is written in any case.
        """
        self.wait()
        since = time.perf_counter() - self._written
        if self._progress.done or self._seconds <= SHARE_OF_TIME * since:
            self.write()
        else:
            # The checkpoint on disk still names the older file.
            needed = (self._progress.best_file, self._progress.start_file, self._named)
            remove_former_best(self._run.folder, *needed)

    def write(self) -> None:
        """Writes the checkpoint, and only then deletes kept weights that it no longer names."""
        began = time.perf_counter()
        folder = self._run.folder
        progress = self._progress
        self.wait()
        progress.metrics_bytes = self._run.recorder.sync()
        if self._records_seconds:
            progress.seconds = time.monotonic() - self._run.began_at
        tensors = tensors_of(self._parts, self._left_out)
        header = asdict(progress)
        best = progress.best_file
        start = progress.start_file

        def write() -> None:
            save_tensors(folder / LAST, tensors, header)
            remove_former_best(folder, best, start)

        if self._in_thread:
            self._writing = self._writer.submit(write)
        else:
            # On a CPU the tensors are no copies, so the steps wait.
            write()
        self._written = time.perf_counter()
        self._named = best
        self._seconds = self._written - began

    def wait(self) -> None:
        """Waits until the last checkpoint is written; raises its error."""
        if self._writing is None:
            return
        began = time.perf_counter()
        self._writing.result()
        self._writing = None
        self._seconds += time.perf_counter() - began

    def close(self) -> None:
        """Ends the thread."""
        self._writer.shutdown()
