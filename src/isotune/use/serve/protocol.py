"""Connections that can't harm each other.

uvicorn reads and writes HTTP. `Patience` adds what hostile clients make necessary. A connection reads little at a time,
so that chunks of one byte or hundreds of requests in a row make nobody wait. It ends when its client sends a header or
takes an answer too slowly, or when another connection needs its place. A request's body has a time-out in `gate.py`,
where it can be answered.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from isotune.use.serve.limits import USUAL, Limits

READ = 2**12  # bytes that are read at a time, and parsed in a millisecond whatever they are
MOST_CONNECTIONS = 10_000
ENDED = "isotune.ended"  # in a scope: ends the connection of a client that sends no more, and may be gone
HURRY = "isotune.hurry"  # in a scope: has the request answered soon


class Patience(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with limits and time-outs."""

    limits = USUAL
    most = 1000  # connections
    waiting: dict[Patience, None] = {}  # noqa: RUF012 - connections without a request, the oldest first, of a server

    def connection_made(self, transport: Any) -> None:
        """Waits for the first header; the connection that has waited longest makes room."""
        super().connection_made(transport)
        transport.max_size = READ
        self._size = 0  # bytes since the request began
        self._in_header = self._ended = self._stopping = False
        self._timers: dict[str, asyncio.TimerHandle] = {}  # what the connection waits for, by name
        self._active: dict[str, Any] = {}  # the scope of the request that is answered
        self._wait()
        if len(self.connections) > self.most:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leaves nothing behind: no timer, and no reference to what was received."""
        super().connection_lost(exc)
        for name in [*self._timers]:
            self._stop(name)
        self.waiting.pop(self, None)
        self.pipeline.clear()
        self._active, self.cycle = {}, None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Reads on, unless the request becomes too large, with all that frames its chunks."""
        super().data_received(data)
        self._size += len(data)
        most = self.limits.head_bytes + (0 if self._in_header else self.limits.body_bytes)
        if self._size > most and not self.transport.is_closing():
            part = "header" if self._in_header else "request"
            self.send_400_response(f"The {part} has more than {most:,} bytes.")
        self._wait()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answers the requests that have come whole; then the connection ends."""
        self._ended = True
        self._active[ENDED] = self.transport.abort
        return self._is_busy() and not self.cycle.more_body

    def on_message_begin(self) -> None:
        """Counts the bytes of a new request."""
        super().on_message_begin()
        self._in_header, self._size = True, 0

    def on_headers_complete(self) -> None:
        """Begins to answer, or to wait for the answers before."""
        self._in_header = False
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._active = cycle.scope
        if self._ended:
            self._active[ENDED] = self.transport.abort
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Waits for the client no longer if it has taken what was written, and goes on to the next request."""
        if not self.flow.write_paused:
            self._stop("answer")
        super().on_response_complete()
        if self.pipeline:  # else uvicorn reads on after each answer, faster than it answers
            self.flow.pause_reading()
        if self._stopping or (self._ended and not self._is_busy()):
            self.transport.close()
        self._wait()

    def pause_writing(self) -> None:
        """Waits for the client to take its answer: all of it, because a client may take a little now and then."""
        super().pause_writing()
        self._start("answer", self.limits.answer_seconds)

    def resume_writing(self) -> None:
        """Waits no longer if the client has taken a whole answer."""
        super().resume_writing()
        if not self._is_busy():
            self._stop("answer")

    def shutdown(self) -> None:
        """Ends the connection, or has the request in progress answered soon."""
        super().shutdown()
        self._stopping = True
        self.pipeline.clear()
        if hurry := self._active.get(HURRY):
            hurry()
        self._start("stop", self.limits.stop_seconds + 1)

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        """Waits for the next request, or for the rest of its header; not while a request is in progress."""
        wanted = "" if self._is_busy() else "header" if self._in_header else "idle"
        for name in ("header", "idle"):
            if name != wanted:
                self._stop(name)
        if not wanted or self.transport.is_closing():
            self.waiting.pop(self, None)
        else:
            self.waiting.setdefault(self)
            self._start(
                wanted, self.limits.header_seconds if self._in_header else self.limits.idle_seconds
            )

    def _start(self, name: str, seconds: float) -> None:
        """Cuts the connection after some seconds, unless the timer is stopped; a timer that runs already goes on."""
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()


def patient(limits: Limits) -> type[Any]:
    """The protocol with these limits, for the connections of one server."""
    return type(
        "Patience", (Patience,), {"limits": limits, "most": _most_connections(), "waiting": {}}
    )


def _most_connections() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        MOST_CONNECTIONS
        if files == resource.RLIM_INFINITY
        else min(MOST_CONNECTIONS, files - min(256, files // 4))
    )
