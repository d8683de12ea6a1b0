"""Everything that a request has to pass before its route: key, queue, size, and time.

A request is refused as early as possible: key, declared size and queue are checked before a byte of
the body is read. The queue has one rule for every kind and size of request: if `Limits.requests`
are in progress, the next one is answered with 429. (A GET request encodes nothing and needs no
place.) Texts of all requests are encoded in turn (`batcher.py`), so the wait of a small request
depends on the number of requests before it, not on their size. A request is in progress until its
client has taken the answer, so the limits of requests, bytes and tokens bound the memory.

A request whose client has gone, or that takes too long, is cancelled, and what is left of it is not
encoded.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import traceback
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isotune.errors import counted
from isotune.use.serve.answers import FAILED, Refused, busy
from isotune.use.serve.limits import Limits
from isotune.use.serve.protocol import ENDED, HURRY

# In a scope: says of what the request has more than the server does in the time for an answer.
EXCESS = "isotune.excess"

logger = logging.getLogger("isotune.use.serve")

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
# The edges of the histogram of requests.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """What the server counts, for Prometheus. No label has a client's text."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        ProcessCollector(registry=registry)
        counter = partial(Counter, registry=registry)
        self.requests = counter(
            "isotune_requests", "Answered requests by path and status", ["path", "status"]
        )
        self.seconds = Histogram(
            "isotune_request_seconds",
            "Seconds from a request's header to the end of its answer",
            ["path"],
            buckets=SECONDS,
            registry=registry,
        )
        self.in_progress = Gauge(
            "isotune_requests_in_progress", "Requests without an answer yet", registry=registry
        )
        self.texts = counter("isotune_texts", "Encoded texts", ["model"])
        self.tokens = counter(
            "isotune_tokens", "Encoded tokens, special tokens included", ["model"]
        )
        self.cut = counter(
            "isotune_cut_texts", "Texts that may have been cut, to the encoder's limit", ["model"]
        )


class Budget:
    """The bytes or the tokens of all requests in progress.

    Those of small requests don't count, so that large requests let them in.
    """

    def __init__(self, limit: int, requests: int, unit: str) -> None:
        self._limit = limit
        self._left = limit
        self._small = limit // requests
        self._unit = unit
        self._key = f"isotune.{unit}"

    def take(self, scope: Scope, count: int) -> None:
        """Counts what a request has by now, in place of what it had before.

        Raises:
            Refused: too few are left.
        """
        if count <= self._small:
            return
        more = count - scope.get(self._key, 0)
        if more > self._left:
            taken = self._limit - self._left
            raise busy(
                f"the requests in progress have {taken:,} {self._unit}, "
                f"and may have {self._limit:,}"
            )
        self._left -= more
        scope[self._key] = count

    def give_back(self, scope: Scope) -> None:
        """Forgets what a request has that is no longer in progress."""
        self._left += scope.pop(self._key, 0)


@dataclass(eq=False)
class Gate:
    """ASGI middleware around the routes; only that of CORS stands outside of it."""

    app: ASGIApp
    limits: Limits
    metrics: Metrics
    keys: InitVar[Sequence[str]]
    """Without keys, every request is accepted."""
    open_paths: Collection[str]
    """Paths where no request needs a key."""
    paths: Collection[str]
    """The paths that log and counts name."""
    tokens: Budget

    def __post_init__(self, keys: Sequence[str]) -> None:
        # To look up a hash tells nothing of a key.
        self._keys = {hashlib.sha256(key.encode()).digest() for key in keys}
        self.bytes = Budget(self.limits.bytes_in_progress, self.limits.requests, "bytes")
        # The requests in progress, the oldest first.
        self._in_progress: dict[_Request, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = _Request(scope, receive, send, self.limits)
        start = time.perf_counter()
        try:
            await self._pass(request)
        except Refused as refused:
            await request.refuse(refused)
        except Exception as error:
            # An error's text may have a client's text in it; the names of its functions have not.
            frames = "".join(traceback.format_tb(error.__traceback__))
            logger.error("%s in answering a request:\n%s", type(error).__name__, frames)
            await request.refuse(FAILED)
        self._record(request, time.perf_counter() - start)

    def _record(self, request: _Request, seconds: float) -> None:
        """Counts and logs an answered request."""
        scope = request.scope
        path = "other"
        if scope["path"] in self.paths:
            path = scope["path"]
        client = "-"
        if scope["client"]:
            client = scope["client"][0]
        self.metrics.requests.labels(path, request.status).inc()
        self.metrics.seconds.labels(path).observe(seconds)
        # A request has no status if its client went before the answer.
        status = request.status or "gone"
        milliseconds = 1000 * seconds
        logger.info("%s %s %s %s %.0f ms", client, scope["method"], path, status, milliseconds)

    async def _pass(self, request: _Request) -> None:
        is_open = request.scope["path"] in self.open_paths
        if self._keys and not is_open and not self._knows(request):
            message = "the API key is missing or wrong; send the header: Authorization: Bearer KEY"
            raise Refused(
                401, message, code="invalid_api_key", headers={"www-authenticate": "Bearer"}
            )
        if is_open or request.scope["method"] != "POST":
            await self.app(request.scope, request.receive, request.send)
            return
        if len(self._in_progress) >= self.limits.requests:
            self._make_room()
        await self._work(request)

    def _knows(self, request: _Request) -> bool:
        """Whether a request has one of the keys."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        return hashlib.sha256(key.strip().encode("latin-1")).digest() in self._keys

    def _make_room(self) -> None:
        """Ends the oldest request whose client sends no more, because the client may be gone.

        Raises:
            Refused: all clients may send more.
        """
        for request in self._in_progress:
            end = request.scope.pop(ENDED, None)
            if end is not None:
                end()
                return
        raise busy(f"{counted(self.limits.requests, 'request')} in progress, which is the limit")

    async def _work(self, request: _Request) -> None:
        """Reads and answers a request, which is in progress until its client has the answer."""
        self._in_progress[request] = None
        request.scope[HURRY] = request.hurry
        self.metrics.in_progress.inc()
        try:
            body = await request.read(self.bytes)
            await request.run(self.app, body)
        finally:
            self.tokens.give_back(request.scope)
            self.bytes.give_back(request.scope)
            del self._in_progress[request], request.scope[HURRY]
            self.metrics.in_progress.dec()


class _Request:
    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits) -> None:
        self.scope = scope
        self.receive = receive
        self._send = send
        self.limits = limits
        self.headers = Headers(scope=scope)
        # The status of the answer, and 0 before the answer.
        self.status = 0
        # Whether the body was read.
        self._is_whole = False
        self._deadline: asyncio.Timeout | None = None
        self._stops = False

    def hurry(self) -> None:
        """The server stops: ends the wait for the body at once, and that for the answer soon."""
        self._stops = True
        if self._deadline is None or self._deadline.expired():
            return
        latest = asyncio.get_running_loop().time()
        if self._is_whole:
            latest += self.limits.stop_seconds
        when = self._deadline.when()
        if when is not None:
            self._deadline.reschedule(min(when, latest))

    async def read(self, budget: Budget) -> bytes:
        """The whole body, unless it is too large or comes too slowly."""
        try:
            async with asyncio.timeout(self.limits.body_seconds) as self._deadline:
                return await self._read(budget)
        except TimeoutError:
            if self._stops:
                raise _stopping() from None
            seconds = self.limits.body_seconds
            raise Refused(
                408,
                f"the body of the request was not complete after {seconds:g} s",
                headers={"connection": "close"},
            ) from None

    async def _read(self, budget: Budget) -> bytes:
        body = bytearray()
        self._refuse_large(int(self.headers.get("content-length", 0)))
        while not self._is_whole:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client has gone")
            body += message.get("body", b"")
            self._is_whole = not message.get("more_body")
            self._refuse_large(len(body))
            budget.take(self.scope, len(body))
        return bytes(body)

    def _refuse_large(self, size: int) -> None:
        """Refuses a body of more bytes than one may have."""
        most = self.limits.body_bytes
        if size > most:
            raise Refused(
                413, f"the body is larger than {most:,} bytes; send fewer texts in a request"
            )

    async def run(self, app: ASGIApp, body: bytes) -> None:
        """Has the routes answer.

        They are cancelled if the client goes, or if the answer takes too long to begin.
        """
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        del body

        async def replay() -> Message:
            if messages:
                return messages.pop()
            return await gone

        gone = asyncio.ensure_future(self.receive())
        answer = asyncio.ensure_future(app(self.scope, replay, self.send))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.seconds) as self._deadline:
                    await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
            self._deadline = None
            if self.status or answer.done():
                await answer
            elif not gone.done():
                raise self._late()
        finally:
            answer.cancel()
            gone.cancel()

    def _late(self) -> Refused:
        """The refusal of a request whose answer took too long to begin."""
        if self._stops:
            return _stopping()
        seconds = f"{self.limits.seconds:g} s"
        excess = ""
        if EXCESS in self.scope:
            excess = self.scope[EXCESS]()
        if excess == "":
            message = f"the server was too busy to answer within {seconds}"
            return Refused(503, message, headers={"retry-after": "10"})
        message = (
            f"the request can't be answered within {seconds} (--timeout): {excess}; send fewer or "
            "shorter texts in a request, or start the server with a longer --timeout"
        )
        # Clients of OpenAI's kind would send it again.
        return Refused(503, message, headers={"x-should-retry": "false"})

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message).update(SECURITY_HEADERS)
        await self._send(message)

    async def refuse(self, refused: Refused) -> None:
        """Answers with an error, unless an answer has begun."""
        if not self.status:
            await refused.response()(self.scope, self.receive, self.send)


def _stopping() -> Refused:
    message = "the server is stopping; ask again when it has started"
    return Refused(503, message, headers={"retry-after": "10"})
