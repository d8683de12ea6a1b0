"""A connection that ends when its client is too slow.

uvicorn closes a connection that is idle between two requests. It does not close one whose client sends half a header,
or takes its answer slowly; `Patience` does. A request's body has a time-out in `gate.py`, where it can be answered.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from isotune.use.serve.limits import USUAL, Limits


class Patience(H11Protocol):
    """uvicorn's HTTP/1.1, with time-outs for a request's header and for taking an answer."""

    limits = USUAL

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first header."""
        super().connection_made(transport)
        self._timers: dict[str, asyncio.TimerHandle] = {}  # what the connection waits for, by name
        self._time_header()

    def data_received(self, data: bytes) -> None:
        """Waits no longer once the header of a request is complete."""
        super().data_received(data)
        self._time_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops all timers."""
        super().connection_lost(exc)
        for name in [*self._timers]:
            self._stop(name)

    def pause_writing(self) -> None:
        """Waits for the client to take its answer: all of it, because a client may take a little now and then."""
        super().pause_writing()
        self._start("answer", self.limits.answer_seconds)

    def resume_writing(self) -> None:
        """Waits no longer if the client has taken a whole answer."""
        super().resume_writing()
        if self.cycle.response_complete:
            self._stop("answer")

    def on_response_complete(self) -> None:
        """Waits no longer if the client has taken what was written."""
        if not self.flow.write_paused:
            self._stop("answer")
        super().on_response_complete()

    def _time_header(self) -> None:
        """Starts the timer while no request is in progress, and stops it otherwise."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop("header")
        elif not self.transport.is_closing():
            self._start("header", self.limits.header_seconds)

    def _start(self, name: str, seconds: float) -> None:
        """Cuts the connection after some seconds, unless the timer is stopped; a timer that runs already goes on."""
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()


def patient(limits: Limits) -> type[Any]:
    """The protocol with these limits, for uvicorn."""
    return type("Patience", (Patience,), {"limits": limits})
