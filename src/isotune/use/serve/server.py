"""Runs the server until it is told to stop."""

import gc
import logging
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from isotune.errors import InputError, as_input_error, counted
from isotune.use.serve.limits import Limits
from isotune.use.serve.protocol import patient

# Seconds after which a thread that computes in Python lets another thread go on. Python's default
# of 0.005 has a worker wait up to so long after each operation of torch while the server reads or
# writes requests.
SWITCH_SECONDS = 0.0005
# So many connections are accepted at a time, before any of them is looked at.
ACCEPTED = 64
# So many others wait in the system's queue.
QUEUED = 2048
# The log has so many characters in a minute, which is less than 1 MB an hour.
LOGGED = 16_000


class Server(uvicorn.Server):
    """uvicorn's server; a second signal to stop changes nothing."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens; uvicorn has made the system's queue as short as what is accepted at a time."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(QUEUED)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stops the server; the first signal is raised again afterwards."""
        if not self._captured_signals:
            self._captured_signals = [sig]
        self.should_exit = True


class BoundedLog(logging.StreamHandler[Any]):
    """Writes to standard error, up to a number of characters a minute.

    Then it says how many lines were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        self._left = LOGGED
        self._lines_left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line, or counts it."""
        minute = int(record.created / 60)
        if minute != self._minute:
            self._begin(minute, record.created)
        self._left -= len(self.format(record)) + 1
        if self._left >= 0:
            super().emit(record)
        else:
            self._lines_left_out += 1

    def _begin(self, minute: int, created: float) -> None:
        """Begins another minute, with what was left out in the one before."""
        lines = self._lines_left_out
        self._minute = minute
        self._left = LOGGED
        self._lines_left_out = 0
        if lines:
            message = f"{counted(lines, 'line')} left out; /metrics counts all requests"
            self.emit(logging.makeLogRecord({"msg": message, "created": created}))


def serve(app: ASGIApp, listener: socket.socket, limits: Limits) -> None:
    """Answers requests until SIGINT or SIGTERM.

    Then it finishes those that were accepted, and raises the signal again.
    """
    handler = BoundedLog()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING, handlers=[handler])
    logging.getLogger("isotune.use.serve").setLevel(logging.INFO)
    sys.setswitchinterval(SWITCH_SECONDS)
    # Else each full collection looks at all that was imported, for a tenth of a second.
    gc.freeze()
    Server(configured(app, limits)).run(sockets=[listener])


def configured(app: ASGIApp, limits: Limits) -> uvicorn.Config:
    """What uvicorn has to know."""
    return uvicorn.Config(
        app,
        http=patient(limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        backlog=ACCEPTED,
        timeout_keep_alive=int(limits.idle_seconds),
        access_log=False,
        log_config=None,
        server_header=False,
    )


def listen(host: str, port: int) -> tuple[socket.socket, str]:
    """Opens the port, 0 for any that is free, and returns it with its URL."""
    if not 0 <= port < 2**16:
        raise InputError(f"port {port}: ports are 0 (any that is free) to 65535")
    family = socket.AF_INET
    name = host
    if ":" in host:
        family = socket.AF_INET6
        name = f"[{host}]"
    with as_input_error(
        OSError, f"{host} port {port}: the server can't listen there", "; choose another"
    ):
        listener = socket.create_server((host, port), family=family, backlog=QUEUED)
    # Connections inherit this. Without it, the body of an answer waits 40 ms for the client to
    # acknowledge the header.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener, f"http://{name}:{listener.getsockname()[1]}"


def read_keys(file: Path | None) -> list[str]:
    """The API keys of a file, one a line; none without a file."""
    if file is None:
        return []
    with as_input_error((OSError, ValueError), f"{file}: it can't be read"):
        lines = file.read_text("utf-8-sig").splitlines()
    keys = [line.strip() for line in lines if line.strip()]
    if not keys:
        raise InputError(f"{file}: no API key; write one a line")
    return keys
