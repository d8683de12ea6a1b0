"""A server in this process, answering over a real socket."""

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from isotune.encoder.encoder import Encoder
from isotune.use.search import Document, Index
from isotune.use.serve.app import application
from isotune.use.serve.limits import USUAL, Limits
from isotune.use.serve.server import Server, configured, listen
from tests.conftest import hear_interrupts, until


class Running(NamedTuple):
    """A running server, and a client of it."""

    url: str
    client: httpx2.Client
    server: Server

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def post(self, path: str, **body: Any) -> httpx2.Response:
        return self.client.post(path, json=body)

    def embed(self, input: Any, **fields: Any) -> httpx2.Response:
        return self.post("/v1/embeddings", model="tiny", input=input, **fields)


Serve = Callable[..., Running]


@contextmanager
def running(
    encoders: dict[str, Encoder], limits: Limits = USUAL, **options: Any
) -> Iterator[Running]:
    """Runs a server in a thread for a `with` block."""
    listener, url = listen("127.0.0.1", 0)
    app = application(encoders, limits=limits, **options)
    server = Server(configured(app, limits))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    until(lambda: server.started)
    with httpx2.Client(base_url=url, trust_env=False) as client:
        yield Running(url, client, server)
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


class Process(NamedTuple):
    """A server in a process of its own."""

    popen: subprocess.Popen[str]
    port: int

    def memory(self) -> float:
        """Resident memory in MB."""
        fields = Path(f"/proc/{self.popen.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def serving(words: Sequence[str], log: Path, files: int = 4096) -> Iterator[Process]:
    """Runs `isotune serve` with these words for a `with` block; its errors go to the log."""

    def prepare() -> None:
        hear_interrupts()
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    command = [sys.executable, "-m", "isotune", "serve", *words, "--port=0"]
    with log.open("w") as file:
        popen = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=file, text=True, preexec_fn=prepare
        )
    line = popen.stdout.readline()  # NAME: http://127.0.0.1:PORT (Ctrl-C stops the server)
    yield Process(popen, int(line.split()[1].rpartition(":")[2]))
    popen.kill()
    popen.communicate()


@pytest.fixture(scope="session")
def tiny(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model)


@pytest.fixture
def searching(
    tiny: Encoder, tiny_model: Path, sentences: list[str], tmp_path: Path
) -> Iterator[Running]:
    """A server with two encoders and an index of the sentences.

    Ids and places of the sentences are their numbers.
    """
    index = Index.create(tmp_path / "index", tiny)
    index.add(Document(f"{i}", text, {"place": i}) for i, text in enumerate(sentences))
    with running(
        {"tiny": tiny, "cls": Encoder.load(tiny_model, pooling="cls")}, index=index
    ) as server:
        yield server


@pytest.fixture(scope="module")
def server(tiny: Encoder, tiny_model: Path) -> Iterator[Running]:
    """A server with two encoders and the usual limits."""
    with running({"tiny": tiny, "cls": Encoder.load(tiny_model, pooling="cls")}) as server:
        yield server


@pytest.fixture
def serve(tiny: Encoder) -> Iterator[Serve]:
    """A function that starts a server with other options."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            running(**{"encoders": {"tiny": tiny}, **options})
        )


def in_progress(server: Running) -> float:
    lines = server.client.get("/metrics").text.splitlines()
    (line,) = [line for line in lines if line.startswith("isotune_requests_in_progress")]
    return float(line.split()[1])
