"""Runs the server until it is told to stop."""

import logging
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from isotune.errors import InputError
from isotune.use.serve.limits import Limits
from isotune.use.serve.protocol import patient

KEYS_VARIABLE = "ISOTUNE_KEYS"
# Seconds after which a thread that computes in Python lets another thread go on. Python's default of 0.005 has a worker
# wait up to so long after each operation of torch while the server reads or writes requests.
SWITCH_SECONDS = 0.0005


def serve(app: ASGIApp, listener: socket.socket, limits: Limits) -> None:
    """Answers requests until SIGINT or SIGTERM, then finishes those that were accepted, and raises the signal again.

    Requests are logged on standard error: client, method, path, status and time, and nothing that a client sent.
    """
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("isotune.use.serve").setLevel(logging.INFO)
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        app, http=patient(limits), ws="none", access_log=False, log_config=None, server_header=False
    )
    uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> tuple[socket.socket, str]:
    """Opens the port, 0 for any that is free, and returns it with its URL."""
    if not 0 <= port < 2**16:
        raise InputError(f"port {port}: ports are 0 (any that is free) to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise InputError(f"{host} port {port}: the server can't listen there ({error}); choose another") from error
    # Connections inherit this. Without it, the body of an answer waits 40 ms for the client to acknowledge the header.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    name = f"[{host}]" if ":" in host else host
    return listener, f"http://{name}:{listener.getsockname()[1]}"


def read_keys(file: Path | None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The API keys of a file, one a line, and of the environment variable ISOTUNE_KEYS, separated by spaces."""
    keys = environment.get(KEYS_VARIABLE, "").split()
    if file is None:
        return keys
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: it can't be read ({error})") from error
    if not (more := [line.strip() for line in lines if line.strip()]):
        raise InputError(f"{file}: no API key; write one a line")
    return [*keys, *more]
