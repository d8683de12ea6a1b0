"""A clean stop of the steps: the loop remembers Ctrl-C, SIGTERM or SIGHUP until its step is over.

`training/stage.py` hears the stop. An evaluation between two steps is broken off, and a resumed run
makes it first. Before the first step, after the last, and in a stage without steps, these signals
act as in any program, at once, and `main` in `cli/__init__.py` ends the command: what is on disk is
whole then.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self

HANGUP = getattr(signal, "SIGHUP", None)
"""The signal of a closed terminal; None on Windows, which has none."""

STOPPING = b"\nthe run stops after the step that it is in; Ctrl-C again stops it at once\n"


class BrokenOff(BaseException):
    """Ends what `StopSignal.breaks` runs."""


class StopSignal:
    """A context manager: inside, the first of these signals sets `received`, and nothing else.

    A second Ctrl-C or SIGTERM acts as it would outside. A signal that the program was started
    to ignore, as by nohup, is still ignored. With `tell`, standard error says that the signal was
    heard.
    """

    SIGNALS = tuple(number for number in (signal.SIGINT, signal.SIGTERM, HANGUP) if number)

    def __init__(self, tell: bool = False) -> None:
        self.tell = tell
        self.received: signal.Signals | None = None
        self._breaks = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {}
        # Only the main thread may set handlers; elsewhere there is nobody to press Ctrl-C.
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in self.SIGNALS:
            handler = signal.getsignal(number)
            if handler != signal.SIG_IGN:
                self._before[number] = handler
                signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def breaks(self) -> Iterator[None]:
        """A block that a signal ends at once by `BrokenOff`, also one that came before."""
        if self.received:
            raise BrokenOff
        self._breaks = True
        try:
            yield
        finally:
            self._breaks = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first = self.received is None
        self.received = signal.Signals(number)
        if first and self.tell:
            # At once: the signal may have interrupted a writer to the buffer of sys.stderr. The
            # terminal may be closed.
            with suppress(OSError):
                os.write(2, STOPPING)
        # A closed terminal may send two hang-ups: one from the system, one from the shell.
        if self.received != HANGUP:
            signal.signal(number, self._before[self.received])
        if first and self._breaks:
            raise BrokenOff
