"""A connection that ends when its client stalls.

uvicorn closes a connection that is idle between two requests. It does not close one whose client sends half a header,
or takes nothing of its answer; `Patience` does. A request's body has a time-out in `gate.py`, where it can be answered.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from isotune.use.serve.errors import Refused
from isotune.use.serve.limits import USUAL, Limits


class Patience(H11Protocol):
    """uvicorn's HTTP/1.1, with time-outs for headers and for answers that nobody takes."""

    limits = USUAL
    _header_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first header."""
        super().connection_made(transport)
        self._time_header()

    def data_received(self, data: bytes) -> None:
        """Waits no longer once the header of a request is complete."""
        super().data_received(data)
        self._time_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops both timers."""
        super().connection_lost(exc)
        for timer in (self._header_timer, self._answer_timer):
            if timer:
                timer.cancel()

    def pause_writing(self) -> None:
        """Waits for the client to take its answer, and then cuts the connection."""
        super().pause_writing()
        self._answer_timer = self.loop.call_later(self.limits.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Waits no longer."""
        super().resume_writing()
        if self._answer_timer:
            self._answer_timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP."""
        self._refuse(Refused(400, msg), "Bad Request")

    def _time_header(self) -> None:
        """Starts the timer while no request is in progress, and stops it otherwise."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._header_timer:
                self._header_timer.cancel()
            self._header_timer = None
        elif self._header_timer is None and not self.transport.is_closing():
            self._header_timer = self.loop.call_later(self.limits.header_seconds, self._header_is_late)

    def _header_is_late(self) -> None:
        seconds = self.limits.header_seconds
        self._refuse(Refused(408, f"the header of the request was not complete after {seconds:g} s"), "Request Timeout")

    def _refuse(self, refused: Refused, reason: str) -> None:
        """Answers without a request, and closes the connection."""
        body = refused.body()
        lines = [
            f"HTTP/1.1 {refused.status} {reason}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        if not self.transport.is_closing():
            self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
            self.transport.close()


def patient(limits: Limits) -> type[Any]:
    """The protocol with these limits, for uvicorn."""
    return type("Patience", (Patience,), {"limits": limits})
