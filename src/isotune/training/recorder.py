"""What a run says, and what its stages share.

Programs read metrics.jsonl; people read train.log and standard error.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from isotune.console import SAID_EVERY, PlainConsole
from isotune.engine.workers import Workers
from isotune.errors import InputError
from isotune.report import read_records, sealed
from isotune.training.run_folder import LOG, METRICS
from isotune.training.signals import StopSignal

Watch = Callable[[dict[str, Any]], object]
"""What gets every record of metrics.jsonl, as soon as it is written."""

REDRAWN = 0.5
"""Seconds between two states of a notebook's progress bar."""


class _Watched(Exception):
    """Carries the `InputError` of who watches out of the run."""


class Recorder:
    """Writes a run's records.

    Standard error gets a progress bar if it is a terminal, plain lines otherwise.
    """

    def __init__(
        self,
        folder: Path | None,
        metrics_bytes: int = 0,
        quiet: bool = False,
        watch: Watch | None = None,
    ) -> None:
        """Opens the files in a folder, if there is one.

        The file metrics.jsonl keeps its first `metrics_bytes` bytes.
        """
        self.warnings: list[str] = []
        metrics = Path(os.devnull)
        log = Path(os.devnull)
        if folder:
            metrics = folder / METRICS
            log = folder / LOG
            self.warnings += _cut_records(metrics, metrics_bytes)
        self._metrics: IO[bytes] = metrics.open("ab")
        self._watch = watch
        self._log: IO[str] = log.open("a", encoding="utf-8", newline="\n")
        # A notebook gets the lines as one stream, and the bar as one display that changes.
        notebook = PlainConsole().is_jupyter and not quiet and folder is not None
        plain: dict[str, Any] = {}
        if notebook:
            plain = {"force_jupyter": False, "force_terminal": False}
        # With soft wraps, commands stay whole.
        self._console = PlainConsole(stderr=True, quiet=quiet, soft_wrap=True, **plain)
        self._bar = _progress_bar(self._console, disable=quiet or not self._console.is_terminal)
        self._shown: dict[str, str] = {}
        self._display: Any = None
        if notebook:
            show = sys.modules["IPython.display"].display
            self._display = show({"text/plain": ""}, raw=True, display_id=True)
        # When the display last changed.
        self._drawn = 0.0
        # When the last line was said, and whether the run is over.
        self._said = time.monotonic()
        self._over = Event()

    def __enter__(self) -> Self:
        self._bar.start()
        if self._bar.disable and not self._console.quiet:
            Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._write(f"stopped by {type(error).__name__}: {error}")
        self._over.set()
        with suppress(OSError):
            self._bar.stop()
        self._metrics.close()
        self._log.close()
        if isinstance(error, _Watched):
            raise error.args[0]

    def sync(self) -> int:
        """Waits until metrics.jsonl is on the disk; returns its length in bytes."""
        os.fsync(self._metrics.fileno())
        return self._metrics.tell()

    def record(self, kind: str, **values: Any) -> None:
        """Writes a line of metrics.jsonl, and passes the record to `watch`."""
        record = {"kind": kind, **values}
        self._metrics.write((sealed(record) + "\n").encode())
        self._metrics.flush()
        if self._watch is None:
            return
        try:
            self._watch(record)
        except InputError as error:
            # Within an evaluation, this error would be taken for one of the training.
            raise _Watched(error) from error

    def say(self, text: str) -> None:
        """Writes a line for people."""
        self._write(text)
        self._print(text)

    def warn(self, step: int, text: str) -> None:
        """Writes a warning, which the report repeats; the same warning is written only once."""
        if text not in self.warnings:
            self.warnings.append(text)
            self.record("warning", step=step, message=text)
            self.say(f"warning: {text}")

    def start(self, description: str, done: int, total: int) -> None:
        """Shows a new progress bar, after the last state of the one before."""
        self._bar.refresh()
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._shown = {}
        self._bar.add_task(description, completed=done, total=total, shown="")

    def advance(self, count: int = 1) -> None:
        """Moves the progress bar so many steps on."""
        for task in self._bar.task_ids:
            self._bar.advance(task, count)
        if self._display and time.monotonic() > self._drawn + REDRAWN:
            with self._console.capture() as text:
                self._console.print(self._bar.get_renderable())
            self._display.update({"text/plain": text.get()}, raw=True)
            self._drawn = time.monotonic()

    def show(self, name: str, value: str) -> None:
        """Shows the latest value of a quantity, such as the loss, behind the progress bar."""
        self._shown[name] = value
        shown = ", ".join(f"{name} {value}" for name, value in self._shown.items())
        for task in self._bar.task_ids:
            self._bar.update(task, shown=shown)

    def _print(self, text: str) -> None:
        """Prints a line on standard error."""
        self._said = time.monotonic()
        # A terminal may have been closed; train.log has what is said.
        with suppress(OSError):
            self._console.print(text)

    def _break_silence(self) -> None:
        """Prints how far the run is where nothing was said for a while, and no bar shows that."""
        while not self._over.wait(1.0):
            if time.monotonic() > self._said + SAID_EVERY:
                self._print(self._state())

    def _state(self) -> str:
        """How far the run is."""
        for task in self._bar.tasks:
            if task.total and task.completed < task.total:
                return f"{task.description}: {task.completed:,.0f} of {task.total:,.0f} done so far"
        silent = time.monotonic() - self._said
        return f"still at work, {silent:,.0f} s after the last line"

    def _write(self, text: str) -> None:
        self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        self._log.flush()


def _cut_records(metrics: Path, length: int) -> list[str]:
    """Cuts a metrics.jsonl to the bytes of the last checkpoint.

    Returns the messages of the warnings in them.
    """
    if not metrics.exists():
        if length:
            raise _damaged(metrics, "it has been cut")
        return []
    if length > metrics.stat().st_size:
        raise _damaged(metrics, "it has been cut")
    os.truncate(metrics, length)
    if metrics.read_bytes()[-1:] not in (b"", b"\n"):
        raise _damaged(metrics, "its last line has no end")
    warnings = read_records(metrics).get("warning", ())
    return [record["message"] for record in warnings]


def _damaged(metrics: Path, how: str) -> InputError:
    return InputError(f"{metrics}: it is damaged ({how}); start again in another folder")


def _progress_bar(console: PlainConsole, disable: bool) -> Progress:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[shown]}", markup=False),
    )
    # The time left follows from the last thousand steps, also where a step takes longer than rich's
    # 30 seconds.
    return Progress(*columns, console=console, disable=disable, speed_estimate_period=inf)


@dataclass(frozen=True)
class RunContext:
    """What all stages of a run share."""

    folder: Path
    """The run folder."""

    recorder: Recorder
    """Writes the log and metrics.jsonl."""

    stop: StopSignal
    """A context manager: inside, the first signal ends the loop after its step."""

    seed: int
    """The run's seed."""

    workers: Workers
    """They make the passes of the steps."""

    began_at: float = 0.0
    """When the run began, by the clock `time.monotonic`.

    A resumed run counts its earlier seconds.
    """
