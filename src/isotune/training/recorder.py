"""What a run says, metrics.jsonl for programs, train.log and standard error for people; and what its stages share."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from isotune.console import PlainConsole
from isotune.engine.workers import Workers
from isotune.errors import InputError
from isotune.report import read_records, sealed
from isotune.training.signals import StopSignal

Watch = Callable[
    [dict[str, Any]], object
]  # what gets every record of metrics.jsonl, as soon as it is written


class _Watched(Exception):
    """Carries the `InputError` of who watches out of the run."""


class Recorder:
    """Writes a run's records. Standard error gets a progress bar if it is a terminal, plain lines otherwise."""

    def __init__(
        self,
        folder: Path | None,
        metrics_bytes: int = 0,
        quiet: bool = False,
        watch: Watch | None = None,
    ) -> None:
        """Opens the files in a folder, if there is one; metrics.jsonl keeps its first `metrics_bytes` bytes."""
        metrics = folder / "metrics.jsonl" if folder else Path(os.devnull)
        if folder and metrics_bytes > (metrics.stat().st_size if metrics.exists() else 0):
            raise InputError(
                f"{metrics}: it is damaged (it has been cut); start again in another folder"
            )
        self.warnings: list[str] = []
        if folder and metrics.exists():
            os.truncate(metrics, metrics_bytes)
            if metrics.read_bytes()[-1:] not in (b"", b"\n"):
                raise InputError(
                    f"{metrics}: it is damaged (its last line has no end); start again in another folder"
                )
            self.warnings += [
                record["message"] for record in read_records(metrics).get("warning", ())
            ]
        self._metrics = metrics.open("ab")
        self._watch = watch
        self._log = (folder / "train.log" if folder else Path(os.devnull)).open(
            "a", encoding="utf-8"
        )
        # Commands stay whole. A notebook gets the lines as one stream, and the bar as one display that changes.
        notebook = PlainConsole().is_jupyter and not quiet and folder is not None
        plain: dict[str, Any] = (
            {"force_jupyter": False, "force_terminal": False} if notebook else {}
        )
        self._console = PlainConsole(stderr=True, quiet=quiet, soft_wrap=True, **plain)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        shown = TextColumn("{task.fields[shown]}", markup=False)
        off = quiet or not self._console.is_terminal
        # The time left follows from the last thousand steps, also where a step takes longer than rich's 30 seconds.
        self._bar = Progress(
            *columns, shown, console=self._console, disable=off, speed_estimate_period=inf
        )
        self._shown: dict[str, str] = {}
        show = sys.modules["IPython.display"].display if notebook else None
        self._display = show and show({"text/plain": ""}, raw=True, display_id=True)
        self._drawn = 0.0  # when the display last changed

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._write(f"stopped by {type(error).__name__}: {error}")
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
        try:
            if self._watch:
                self._watch(record)
        except (
            InputError
        ) as error:  # which within an evaluation would be taken for that of the training
            raise _Watched(error) from error

    def say(self, text: str) -> None:
        """Writes a line for people."""
        self._write(text)
        with suppress(OSError):  # a terminal that has been closed; train.log has the line
            self._console.print(text)

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

    def advance(self) -> None:
        """Moves the progress bar one step on."""
        for task in self._bar.task_ids:
            self._bar.advance(task)
        if self._display and time.monotonic() > self._drawn + 0.5:
            with self._console.capture() as text:
                self._console.print(self._bar.get_renderable())
            self._display.update({"text/plain": text.get()}, raw=True)
            self._drawn = time.monotonic()

    def show(self, name: str, value: str) -> None:
        """Shows the latest value of a quantity, such as the loss, behind the progress bar."""
        self._shown[name] = value
        for task in self._bar.task_ids:
            self._bar.update(
                task, shown=", ".join(f"{name} {value}" for name, value in self._shown.items())
            )

    def _write(self, text: str) -> None:
        self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        self._log.flush()


@dataclass(frozen=True)
class RunContext:
    """What all stages of a run share."""

    folder: Path  # the run folder
    recorder: Recorder  # writes the log and metrics.jsonl
    stop: StopSignal  # within it, the steps are made
    seed: int  # the run's seed
    workers: Workers  # make the passes of the steps
    begun: float = 0.0  # when the run began, by the clock `time.monotonic`; a resumed run counts its earlier seconds
