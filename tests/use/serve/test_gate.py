"""What is refused before a route: wrong keys and hosts, too much, too slow; and what is logged."""

import gc
import io
import json
import logging
import random
import re
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx2
import numpy as np
import pytest

from isotune.encoder.encoder import Encoder
from isotune.use.serve import batcher
from isotune.use.serve.limits import Limits
from isotune.use.serve.server import BoundedLog
from tests.conftest import until
from tests.use.serve.conftest import Running, Serve, in_progress, serving

HEAD = "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
COMPARE = HEAD.replace("/v1/embeddings", "/similarity")
WHOLE = COMPARE.encode() + b'content-length: 19\r\n\r\n{"first":["a dog"]}'


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Holds every batch back until the event is set."""
    event, encode = threading.Event(), batcher._encode

    def wait(batch: batcher._Batch) -> np.ndarray:
        event.wait(20)
        return encode(batch)

    monkeypatch.setattr(batcher, "_encode", wait)
    return event


def answer(server: Running, request: bytes) -> tuple[int, dict[str, str]]:
    """Sends bytes, and returns the status and the error."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(request)
        received = b""
        while part := connection.recv(65536):
            received += part
            head, end, body = received.partition(b"\r\n\r\n")
            if end and body.endswith(b"}"):
                break
    return int(head.split()[1]), json.loads(body)["error"]


def test_a_key_is_needed_for_all_but_health_and_the_page(serve: Serve) -> None:
    server = serve(keys=["first", "second"])
    for path in ("/health", "/", "/openapi.json"):
        assert server.client.get(path).status_code == 200
    for path in ("/v1/models", "/metrics", "/none"):
        assert server.client.get(path).status_code == 401
    for wrong in (
        "",
        "Bearer",
        "Bearer third",
        "Bearer firstsecond",
        "Basic first",
        "first",
        "Bearer \xff",
    ):
        refused = server.client.post(
            "/v1/embeddings", headers={"authorization": wrong.encode("latin-1")}
        )
        assert refused.status_code == 401
        assert refused.json()["error"]["code"] == "invalid_api_key"
    for key in ("first", "second"):
        server.client.headers["authorization"] = f"Bearer {key}"
        assert server.embed("a dog").status_code == 200


def test_a_server_without_keys_answers_to_local_names_only(server: Running, serve: Serve) -> None:
    for host in ("localhost", "127.0.0.1:80", "[::1]:8000", "[::1]", "LOCALHOST:1"):
        assert server.client.get("/health", headers={"host": host}).status_code == 200
    for host in (
        "example.com",
        "example.com:8000",
        "127.0.0.1.example.com",
        "127.example.com:80",
        "",
    ):
        assert server.client.get("/health", headers={"host": host}).status_code == 400
    for options in ({"keys": ["a"]}, {"hosts": ()}, {"hosts": ["example.com"]}):
        assert (
            serve(**options).client.get("/health", headers={"host": "example.com"}).status_code
            == 200
        )


def test_a_full_queue_refuses_every_kind_of_request_with_429(
    serve: Serve, slow: threading.Event
) -> None:
    server = serve(limits=Limits(requests=2))
    with ThreadPoolExecutor(2) as pool:
        accepted = [pool.submit(server.embed, "a dog") for _ in range(2)]
        until(lambda: in_progress(server) == 2)
        for refused in (
            server.embed("a dog"),
            server.embed(["a dog"] * 100),
            server.post("/similarity", first=["a dog"]),
        ):
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"]["type"] == "rate_limit_error"
        assert server.client.get("/v1/models").status_code == 200
        slow.set()
        assert [future.result().status_code for future in accepted] == [200, 200]
    until(lambda: server.embed("a dog").status_code == 200)


def test_a_request_that_waits_too_long_is_refused_and_not_encoded(
    serve: Serve, slow: threading.Event
) -> None:
    server = serve(limits=Limits(seconds=0.2))
    refused = server.embed(["a dog"] * 10)
    assert refused.status_code == 503
    assert "within 0.2 s" in refused.json()["error"]["message"]
    slow.set()
    until(lambda: server.embed("a dog").status_code == 200)


def test_a_request_that_can_never_end_in_time_is_told_what_the_server_does_in_this_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, tokenize = batcher._encode, Encoder.tokenize

    def slowly_encoded(batch: batcher._Batch) -> np.ndarray:
        time.sleep(0.1)
        return encode(batch)

    monkeypatch.setattr("isotune.encoder.model.BATCH_BYTES", {"cpu": 4 * 32 * 4 * 100, "cuda": 1})
    monkeypatch.setattr(batcher, "_encode", slowly_encoded)
    server = serve(limits=Limits(seconds=0.8))
    refused = server.embed(["a dog"] * 2000)
    assert refused.status_code == 503
    assert "retry-after" not in refused.headers
    message = refused.json()["error"]["message"]
    assert message.startswith(
        "the request can't be answered within 0.8 s (--timeout): it has 8,000 tokens, and the "
        "server encoded "
    )
    assert re.search(r"\([\d,]+ a second\); send fewer or shorter texts in a request", message)

    def slowly_read(self: Encoder, part: list[str]) -> list[list[int]]:
        time.sleep(0.3)
        return tokenize(self, part)

    monkeypatch.setattr(Encoder, "tokenize", slowly_read)
    monkeypatch.setattr(batcher, "PART_CHARACTERS", 500)
    message = server.embed(["a dog"] * 2000).json()["error"]["message"]
    assert "it has 10,000 characters, and the server read 1,000 (1," in message


def test_a_request_that_waited_for_others_may_come_again(
    serve: Serve, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batcher.Work, "excess", lambda _: "")
    refused = serve(limits=Limits(seconds=0.2)).embed("a dog")
    slow.set()
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
    assert refused.json()["error"]["message"] == "the server was too busy to answer within 0.2 s"


def test_a_request_whose_client_has_gone_is_dropped(serve: Serve, slow: threading.Event) -> None:
    server = serve()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(WHOLE)
        until(lambda: in_progress(server) == 1)
        connection.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )  # to reset the connection
    until(lambda: in_progress(server) == 0, 10)
    slow.set()
    assert server.embed("a dog").status_code == 200


def test_large_bodies_are_refused(serve: Serve) -> None:
    server = serve(limits=Limits(body_bytes=1000))
    status, error = answer(server, f"{HEAD}content-length: 1001\r\n\r\n".encode())
    assert (status, error["type"]) == (413, "invalid_request_error")
    status, error = answer(
        server, f"{HEAD}transfer-encoding: chunked\r\n\r\n3e9\r\n{'a' * 1001}\r\n".encode()
    )
    assert status == 413
    assert "larger than 1,000 bytes" in error["message"]
    assert server.embed("a dog").status_code == 200


@pytest.mark.parametrize(
    ("limits", "status", "message"),
    [
        (Limits(tokens=10), 400, "more than 10 tokens; send fewer texts in a request"),
        (
            Limits(tokens_in_progress=10),
            429,
            "in progress have 8 tokens, and may have 10; try again later",
        ),
    ],
)
def test_texts_are_tokenised_only_up_to_the_limits(
    serve: Serve, limits: Limits, status: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenised, tokenize = [], Encoder.tokenize
    monkeypatch.setattr(batcher, "PART_CHARACTERS", 5)
    monkeypatch.setattr(
        Encoder, "tokenize", lambda self, part: tokenised.append(part) or tokenize(self, part)
    )
    refused = serve(limits=limits).embed(["a dog"] * 30)
    assert refused.status_code == status
    assert message in refused.json()["error"]["message"]
    assert tokenised == [["a dog"]] * 3


def large(server: Running, size: int) -> httpx2.Response:
    """Asks with a body of so many bytes."""
    body = json.dumps({"model": "tiny", "input": "a dog"}).ljust(size)
    return server.client.post(
        "/v1/embeddings", content=body, headers={"content-type": "application/json"}
    )


def test_large_bodies_have_a_limit_together_and_leave_room_for_small_ones(
    serve: Serve, slow: threading.Event
) -> None:
    server = serve(limits=Limits(bytes_in_progress=250_000))
    with ThreadPoolExecutor(21) as pool:
        several = [pool.submit(large, server, 125_000) for _ in range(20)]
        until(lambda: sum(future.done() for future in several) == 18)
        small = pool.submit(server.embed, "a dog")
        until(lambda: in_progress(server) == 3)
        slow.set()
        assert small.result().status_code == 200
    answers = [future.result() for future in several]
    refused = [given.json()["error"]["message"] for given in answers if given.status_code == 429]
    assert sorted(given.status_code for given in answers) == [200] * 2 + [429] * 18
    for message in refused:
        assert re.fullmatch(
            r"the requests in progress have [\d,]+ bytes, and may have 250,000; try.*", message
        )
    until(lambda: large(server, 250_000).status_code == 200)
    assert large(server, 250_001).status_code == 429


@pytest.mark.parametrize("breaks", [False, True])
def test_bytes_of_bodies_that_are_never_complete_are_given_back(serve: Serve, breaks: bool) -> None:
    server = serve(limits=Limits(bytes_in_progress=250_000, body_seconds=60 if breaks else 2))
    with ExitStack() as stack:
        for _ in range(3):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            connection.sendall(f"{HEAD}content-length: 100000\r\n\r\n".encode() + b" " * 80_000)
        until(lambda: large(server, 100_000).status_code == 429)
        assert server.embed("a dog").status_code == 200
        if breaks:
            stack.close()
        until(lambda: large(server, 250_000).status_code == 200, 30)


def test_half_a_body_is_refused_after_a_while(serve: Serve) -> None:
    server = serve(limits=Limits(body_seconds=0.2))
    status, error = answer(server, f"{HEAD}content-length: 100\r\n\r\n{{".encode())
    assert (status, error["message"]) == (
        408,
        "the body of the request was not complete after 0.2 s",
    )


@pytest.mark.parametrize(
    "parts", [[b""], [b"POST /v1/emb"], [HEAD.encode()], [b"G", b"E", b"T", b" ", b"/", b" "]]
)
def test_a_connection_with_half_a_header_is_cut_after_a_while(
    serve: Serve, parts: list[bytes]
) -> None:
    server = serve(limits=Limits(header_seconds=0.2, idle_seconds=0.2))
    with (
        socket.create_connection(("127.0.0.1", server.port), 2) as connection,
        suppress(ConnectionError),
    ):
        for part in parts:
            connection.sendall(part)
            time.sleep(0.03)
        assert connection.recv(1) == b""


@contextmanager
def untaken(server: Running) -> Iterator[socket.socket]:
    """A connection that asks for 1.8 MB, and whose buffers hold some kB of them."""
    (listener,) = server.server.servers[0].sockets
    listener.setsockopt(
        socket.SOL_SOCKET, socket.SO_SNDBUF, 4096
    )  # else the system takes a whole answer
    body = json.dumps({"first": ["a dog"] * 300}).encode()  # 1,200 tokens
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(f"{COMPARE}content-length: {len(body)}\r\n\r\n".encode() + body)
        yield connection


@pytest.mark.parametrize("reads", [0, 8000])
def test_a_client_that_takes_its_answer_slowly_is_cut_off(serve: Serve, reads: int) -> None:
    server, received = serve(limits=Limits(answer_seconds=0.5)), bytearray()
    with untaken(server) as connection, suppress(ConnectionResetError):
        until(lambda: in_progress(server) == 1)
        end = time.monotonic() + 60
        while in_progress(server) and time.monotonic() < end:
            received += connection.recv(reads)
            time.sleep(0.01)
        while part := connection.recv(2**20):
            received += part
    until(lambda: in_progress(server) == 0)
    assert len(received) < 900_000


def test_tokens_of_answers_that_nobody_takes_count_as_in_progress(serve: Serve) -> None:
    server = serve(limits=Limits(tokens_in_progress=1500))
    with untaken(server):
        until(lambda: in_progress(server) == 1)
        time.sleep(0.5)  # the answer is stuck; a request that came first would have the tokens
        until(lambda: server.embed(["a dog"] * 100).status_code == 429)
        refused = server.embed(["a dog"] * 100)
        assert refused.json()["error"]["message"].startswith(
            "the requests in progress have 1,200 tokens, and may have"
        )
        assert int(refused.headers["retry-after"]) >= 1
        assert server.embed("a dog").status_code == 200
    until(lambda: server.embed(["a dog"] * 100).status_code == 200)


def test_a_request_in_progress_is_finished_when_the_server_stops(
    serve: Serve, slow: threading.Event
) -> None:
    server = serve()
    with ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(server.embed, "a dog")
        until(lambda: in_progress(server) == 1)
        server.server.should_exit = True
        time.sleep(0.2)
        slow.set()
        assert accepted.result().status_code == 200


def test_the_log_has_no_text_and_no_made_up_path(
    server: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.INFO):
        server.embed("secret")
        server.client.get("/secret?secret=secret")
        server.post("/similarity", first=["secret", 1])
        monkeypatch.setattr(Encoder, "tokenize", lambda *_: {}["secret"])
        failed = server.embed("secret")
        assert (failed.status_code, failed.json()["error"]["type"]) == (500, "server_error")
        until(lambda: "/v1/embeddings 500 " in caplog.text)  # a request is logged after its answer
    messages = [
        record.getMessage() for record in caplog.records if record.name == "isotune.use.serve"
    ]
    assert sorted(
        message.split()[1:4] for message in messages if message.startswith("127.0.0.1")
    ) == [
        ["GET", "other", "404"],
        ["POST", "/similarity", "400"],
        ["POST", "/v1/embeddings", "200"],
        ["POST", "/v1/embeddings", "500"],
    ]
    assert "KeyError in answering a request" in "".join(messages)
    own = [
        line
        for line in "".join(messages).splitlines()
        if "File" not in line and "tests/" not in line
    ]
    assert not [line for line in own if "secret" in line and "lambda" not in line]


@pytest.mark.parametrize("ahead", [b"", b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n", WHOLE])
def test_a_client_that_sends_no_more_has_its_answers(
    serve: Serve, slow: threading.Event, ahead: bytes
) -> None:
    server = serve(limits=Limits(requests=2))
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(ahead + WHOLE)
        connection.shutdown(socket.SHUT_WR)
        threading.Timer(0.2, slow.set).start()
        received = b"".join(iter(lambda: connection.recv(2**16), b""))
    assert received.count(b"HTTP/1.1 200 OK") == 1 + bool(ahead)
    until(lambda: in_progress(server) == 0)


def test_clients_that_send_no_more_and_may_be_gone_make_room(
    serve: Serve, slow: threading.Event
) -> None:
    server = serve(limits=Limits(requests=2))
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(WHOLE)
    until(lambda: in_progress(server) == 2)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.embed, "a dog")
        time.sleep(0.2)
        slow.set()
        assert asked.result().status_code == 200


def test_the_oldest_idle_connections_make_room(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.use.serve.protocol._most_connections", lambda: 20)
    server = serve()
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
            for _ in range(15)
        ]
        half = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
            for _ in range(100)
        ]
        for connection in half:
            with suppress(ConnectionError):
                connection.sendall(b"POST /")
        with suppress(ConnectionError):
            assert idle[0].recv(1) == b""
        assert server.embed("a dog").status_code == 200
        assert len(server.server.server_state.connections) <= 21


@pytest.mark.parametrize("size", [2**12, 2**16, 2**20])
@pytest.mark.parametrize("path", ["/v1/embeddings", "/similarity", "/none"])
def test_nothing_of_a_refused_request_waits_for_the_garbage_collector(
    server: Running, path: str, size: int
) -> None:
    server.client.post(path, content=b"{}")
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for body in (
            b"x",
            b"[1,",
            b'{"first":[1],"input":1,"k":',
            b'{"model":"none","input":"a","k":',
            b'{"k":"',
        ):
            server.client.post(
                path, content=body.ljust(size), headers={"content-type": "application/json"}
            )
            server.client.post(path, content=body.ljust(size))
        gc.collect()
        held = [
            thing
            for thing in gc.garbage
            if sys.getsizeof(thing) > 2000 or isinstance(thing, BaseException)
        ]
    finally:
        gc.set_debug(0)
        gc.enable()
        gc.garbage.clear()
    assert held == []


def test_the_log_is_bounded_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    log = BoundedLog()
    chance = random.Random(0)
    for second in range(3600):
        for _ in range(chance.choice((0, 1, 20))):
            message = "x" * chance.choice((10, 100, 20_000))
            log.handle(logging.makeLogRecord({"msg": message, "created": float(second)}))
    assert len(written.getvalue()) < 1e6
    assert len(re.findall(r"^[\d,]+ lines left out", written.getvalue(), re.MULTILINE)) > 10


@pytest.mark.parametrize(
    "signals", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGINT] * 2], ids=str
)
def test_a_stop_answers_what_is_in_progress_and_ends_soon(
    signals: list[signal.Signals], tmp_path: Path
) -> None:
    texts = json.dumps({"first": [" ".join(["xq" * 50] * 500)] * 40}).encode()
    with serving(["bert-tiny"], tmp_path / "log") as process, ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", process.port), 30))
            for _ in range(9)
        ]
        for number, connection in enumerate(connections):
            body = texts if number < 6 else texts[:-1]  # which never ends
            connection.sendall(f"{COMPARE}content-length: {len(texts)}\r\n\r\n".encode() + body)
        time.sleep(1)
        start = time.monotonic()
        for sent in signals:
            process.popen.send_signal(sent)
            time.sleep(0.1)
        answers = [b"".join(iter(lambda c=c: c.recv(2**20), b""))[:12] for c in connections]
        assert process.popen.wait(20) == (130 if signal.SIGINT in signals else -signal.SIGTERM)
        assert time.monotonic() - start < 12
        assert {*answers[:6]} <= {b"HTTP/1.1 200", b"HTTP/1.1 503"}
        assert {*answers[6:]} == {b"HTTP/1.1 503"}
    assert not re.search(r"Traceback| 500 ", (tmp_path / "log").read_text())
