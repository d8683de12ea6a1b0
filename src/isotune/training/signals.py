"""A clean stop of the steps: Ctrl-C, SIGTERM or SIGHUP is remembered, and the loop ends after the step it is in.

`training/stage.py` hears the stop. Before the first step and after the last, these signals act as in any program, at
once, and `main` in `cli/__init__.py` ends the command: what is on disk is whole then.
"""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Self

HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none
STOPPING = b"\nthe run stops after the step or the evaluation that it is in; Ctrl-C again stops it at once\n"


class StopSignal:
    """Within it, the first of these signals sets `received`; a second Ctrl-C or SIGTERM acts as it would without this.

    A signal that the program was started to ignore, as by nohup, is still ignored. With `tell`, standard error says
    that the signal was heard.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, *([HANGUP] if HANGUP else []))

    def __init__(self, tell: bool = False) -> None:
        self.tell = tell
        self.received: signal.Signals | None = None

    def __enter__(self) -> Self:
        numbers: tuple[signal.Signals, ...] = self.SIGNALS
        if threading.current_thread() is not threading.main_thread():
            numbers = ()  # only the main thread may set handlers; elsewhere there is nobody to press Ctrl-C
        handlers = {number: signal.getsignal(number) for number in numbers}
        self._before = {
            number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN
        }
        for number in self._before:
            signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.tell and not self.received:
            with suppress(OSError):  # the terminal may be closed
                os.write(
                    2, STOPPING
                )  # at once: this may have interrupted a writer to the buffer of sys.stderr
        self.received = signal.Signals(number)
        if (
            self.received != HANGUP
        ):  # a closed terminal may send two: one from the system, one from the shell
            signal.signal(number, self._before[self.received])

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
