"""A clean stop: Ctrl-C or SIGTERM is remembered, and the loop ends after the step it is in."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class StopSignal:
    """Within it, the first SIGINT or SIGTERM sets `received`; a second one acts as it would without this."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    def __enter__(self) -> StopSignal:
        # Only a program's main thread may set handlers; elsewhere there is nobody to press Ctrl-C.
        numbers = self.SIGNALS if threading.current_thread() is threading.main_thread() else ()
        self._before = {number: signal.signal(number, self._handle) for number in numbers}
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        signal.signal(number, self._before[self.received])

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
