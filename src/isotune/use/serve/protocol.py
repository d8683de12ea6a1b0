"""Connections that can't harm each other.

uvicorn reads and writes HTTP. `Patience` adds what hostile clients make necessary. A connection
reads little at a time, so that chunks of one byte or hundreds of requests in a row make nobody
wait. It ends when its client sends a header or takes an answer too slowly, or when another
connection needs its place. A request's body has a time-out in `gate.py`, where it can be answered.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from isotune.use.serve.limits import USUAL, Limits

# So many bytes are read at a time, and parsed in a millisecond whatever they are.
READ = 2**12
MOST_CONNECTIONS = 10_000
# In a scope: ends the connection of a client that sends no more, and may be gone.
ENDED = "isotune.ended"
# In a scope: has the request answered soon.
HURRY = "isotune.hurry"


class Patience(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with limits and time-outs."""

    limits = USUAL
    # The most connections of a server.
    most = 1000
    # The connections of a server without a request, the oldest first.
    waiting: dict[Patience, None] = {}  # noqa: RUF012

    def connection_made(self, transport: Any) -> None:
        """Waits for the first header; the connection that has waited longest makes room."""
        super().connection_made(transport)
        transport.max_size = READ
        # The bytes since the request began.
        self._size = 0
        self._in_header = False
        self._ended = False
        self._stopping = False
        # What the connection waits for, by name.
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # The scope of the request that is answered.
        self._active: dict[str, Any] = {}
        self._wait()
        if len(self.connections) > self.most:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leaves nothing behind: no timer, and no reference to what was received."""
        super().connection_lost(exc)
        for name in list(self._timers):
            self._stop(name)
        self.waiting.pop(self, None)
        self.pipeline.clear()
        self._active = {}
        self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Reads on, unless the request becomes too large, with all that frames its chunks."""
        super().data_received(data)
        self._size += len(data)
        part = "header"
        most = self.limits.head_bytes
        if not self._in_header:
            part = "request"
            most += self.limits.body_bytes
        if self._size > most and not self.transport.is_closing():
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
        self._in_header = True
        self._size = 0

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
        """Waits no longer for a client that has taken what was written; reads the next request."""
        if not self.flow.write_paused:
            self._stop("answer")
        super().on_response_complete()
        if self.pipeline:
            # Else uvicorn reads on after each answer, faster than it answers.
            self.flow.pause_reading()
        if self._stopping or (self._ended and not self._is_busy()):
            self.transport.close()
        self._wait()

    def pause_writing(self) -> None:
        """Waits for the client to take all of its answer; it might take a little now and then."""
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
        if HURRY in self._active:
            self._active[HURRY]()
        self._start("stop", self.limits.stop_seconds + 1)

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        """Waits for the next request, or for the rest of its header.

        It does not wait while a request is in progress.
        """
        awaited = self._awaited()
        for name in ("header", "idle"):
            if name != awaited:
                self._stop(name)
        if awaited == "" or self.transport.is_closing():
            self.waiting.pop(self, None)
            return
        self.waiting.setdefault(self)
        seconds = self.limits.idle_seconds
        if awaited == "header":
            seconds = self.limits.header_seconds
        self._start(awaited, seconds)

    def _awaited(self) -> str:
        """What the connection waits for from its client: "header", "idle", or "" for nothing."""
        if self._is_busy():
            return ""
        if self._in_header:
            return "header"
        return "idle"

    def _start(self, name: str, seconds: float) -> None:
        """Cuts the connection after some seconds, unless the timer is stopped.

        A timer that runs already goes on.
        """
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


def patient(limits: Limits) -> type[Any]:
    """The protocol with these limits, for the connections of one server."""
    values = {"limits": limits, "most": _most_connections(), "waiting": {}}
    return type("Patience", (Patience,), values)


def _most_connections() -> int:
    try:
        import resource
    except ImportError:
        # Windows has no such module.
        return MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, files - min(256, files // 4))
