"""Hostile clients beside a good one.

Their bodies, frames and connections are of all kinds, as chance has them.

The clients are another process: python -m tests.hostile.test_server PORT SEED SECONDS.
$ISOTUNE_SECONDS sets how long they ask, $ISOTUNE_SEED what.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from isotune.use.search import Index

CONNECTIONS, IDLE = 32, 1200  # the latter are more than the server has files for
LARGEST = 4 * 2**20
SEED = int(os.environ.get("ISOTUNE_SEED", random.randrange(10**6)))
SECONDS = float(os.environ.get("ISOTUNE_SECONDS", 60))
SIGNS = [
    "xq",
    "a ",
    " ",
    "犬",
    "\u0301",
    "🎈",
    "é",
    ".",
    "q☃",
    "\0",
    "\u200b",
    "[MASK] ",
    "don't ",
    "\n",
    "W" * 99,
]
FIELDS = [
    "first",
    "second",
    "input",
    "model",
    "measure",
    "query",
    "k",
    "where",
    "hybrid",
    "encoding_format",
    "x",
]
PATHS = ["/similarity", "/similarity", "/v1/embeddings", "/search"]


class Chance(random.Random):
    """Draws requests."""

    def size(self, most: float) -> int:
        """A number up to `most`; each order of magnitude is as likely."""
        return int(most ** self.random())

    def text(self, most: int = 70_000) -> str:
        signs = self.choices(SIGNS, k=self.choice((1, 1, 2, 3)))
        return "".join(self.choices(signs, k=self.size(most)))[:most]

    def value(self) -> bytes:
        """A value in JSON, or nearly."""
        number, text = self.size(LARGEST / 4), json.dumps(self.text(300)).encode()
        short = [
            text,
            b"[%s]" % text,
            json.dumps(self.where()).encode(),
            b'"\\ud800"',
            b'"\\uD83D"',
            b'"\xed\xa0\x80"',
        ]
        short += [b"null", b"true", b"-0", b"1e999", b"NaN", b"[],{}", b'["a","b\\udc00"]', b"'a'"]
        nested, parts = "]" * (number // 2 + 1), ("[],", '"a",', "1,", "{},")
        shapes = [
            ("", "9", ""),
            ("", "[", ""),
            ("[", "[", nested),
            ("", '{"a":', ""),
            ("{", '"a":{},', '"a":1}'),
        ]
        shapes += [("[", part, "1]") for part in parts]
        shapes.append(('"', "\\u00e9", '"'))
        if self.random() < 0.3:
            before, part, after = self.choice(shapes)
            return f"{before}{part * (number // 2)}{after}".encode()
        long: list[Callable[[], bytes]] = [
            lambda: json.dumps({f"k{i}": i for i in range(number // 4)}).encode(),
            lambda: json.dumps(self.text()).encode(),
            lambda: json.dumps([self.text(65_536)] * self.size(62)).encode(),
            lambda: json.dumps([self.text(400)] * self.size(2048)).encode(),
        ]
        return self.choice(short) if self.random() < 0.7 else self.choice(long)()

    def where(self) -> str:
        """A filter, or nearly."""
        words = [
            "lang",
            "=",
            "'en'",
            "year",
            ">",
            "1990",
            "(",
            ")",
            "NOT",
            "AND",
            "OR",
            "IN",
            "LIKE",
            "'%a_'",
        ]
        words += [
            "text",
            "flag",
            "1e999",
            ";",
            "--",
            "\0",
            "length(repeat(text, 9000000))",
            "`odd name`",
            "'",
        ]
        return " ".join(self.choices(words, k=self.size(60)))

    def body(self) -> bytes:
        """A body of a few fields, sometimes cut or with changed bytes, or none of these."""
        fields = [
            b'"%s":%s' % (self.choice(FIELDS).encode(), self.value())
            for _ in range(self.choice((1, 1, 2, 4)))
        ]
        fields.append(b'"%s":["a dog"]' % self.choice((b"first", b"input", b"query")))
        body = bytearray(b"{%s}" % b",".join(self.sample(fields, len(fields))))[:LARGEST]
        match self.randrange(12):
            case 0:
                del body[self.randrange(len(body)) :]
            case 1:
                for _ in range(self.size(30)):
                    body[self.randrange(len(body))] = self.randrange(256)
            case 2:
                body = bytearray(self.value() or self.randbytes(self.size(LARGEST)))[:LARGEST]
        return bytes(body)

    def request(self) -> bytes:
        """A whole request; some have wrong lengths, chunks, headers, methods or paths."""
        if self.random() < 0.15:
            method = self.choice(["GET"] * 6 + ["HEAD", "OPTIONS", "PUT", "X" * self.size(60_000)])
            paths = [
                "/",
                "/metrics",
                "/health",
                "/page.js",
                "/v1/models",
                "/%ff%00",
                "/" + "a" * self.size(60_000),
            ]
            path = self.choice(paths)
            return (
                f"{method} {path} HTTP/1.{self.choice('0111')}\r\nhost: localhost\r\n\r\n".encode()
                * self.size(2000)
            )
        body, length = self.body(), self.choice([0] * 20 + [1, -1, -3, 10**9, 10**30])
        kind = self.choice(
            ["application/json"] * 9 + ["text/plain", "application/json; charset=utf-16"]
        )
        head = f"POST {self.choice(PATHS)} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n"
        extra = [
            "content-encoding: gzip\r\n",
            "expect: 100-continue\r\n",
            "upgrade: h2c\r\nconnection: upgrade\r\n",
        ]
        extra += [
            "x: " + "a" * self.size(10**6) + "\r\n",
            "x: a\r\n" * self.size(10**4),
            "transfer-encoding: gzip\r\n",
        ]
        head += self.choice([""] * 20 + extra)
        if self.random() < 0.7:
            return f"{head}content-length: {len(body) + length}\r\n\r\n".encode() + body
        size = self.choice([1, self.size(100), self.size(LARGEST), len(body)]) + len(body) // 60_000
        chunks = (body[i : i + size] for i in range(0, len(body), size))
        extension = self.choice([b""] * 9 + [b";" + b"a" * self.size(1000)])
        framed = b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
        end = self.choice([b"0\r\n\r\n"] * 9 + [b"zz\r\n", b""])
        return f"{head}transfer-encoding: chunked\r\n\r\n".encode() + framed + end


async def client(port: int, chance: Chance, end: float, counts: Counter[str]) -> None:
    """Sends requests, one or some on a connection.

    The client sends at once or slowly, takes the answers or not, and goes on to the end or not.
    """
    while time.monotonic() < end:
        with suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            counts["connections"] += 1
            for _ in range(chance.choice((1, 1, 3, 30))):
                content, way = chance.request(), chance.random()
                counts["requests"] += 1
                for i in range(
                    0, len(content), step := len(content) if way < 0.9 else len(content) // 20 + 1
                ):
                    writer.write(content[i : i + step])
                    await asyncio.wait_for(writer.drain(), 5)
                    await asyncio.sleep(0 if way < 0.9 else chance.random() / 5)
                    if way > 0.98:
                        writer.transport.abort()
                if ends := chance.random() < 0.1:
                    writer.write_eof()
                if chance.random() < 0.9:
                    answer = await asyncio.wait_for(reader.read(2**20), chance.random() * 10)
                    for status in re.findall(rb"HTTP/1\.1 (\d+)", answer):
                        counts[status.decode()] += 1
                    if b"HTTP/1.1 500" in answer:
                        print(f"500 for {content[:2000]!r}", file=sys.stderr)
                    for message in re.findall(rb'"message":"([^"]*)', answer):
                        assert len(message) < 1500, message
                if ends:
                    break
            writer.close()


async def idle(port: int, seconds: float, end: float) -> None:
    """Holds connections open after some seconds."""
    await asyncio.sleep(seconds)
    while time.monotonic() < end:
        with suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.wait_for(reader.read(1), max(0.1, end - time.monotonic()))
            writer.close()


async def attack(port: int, seed: int, seconds: float) -> None:
    """Has all hostile clients ask.

    In the last third of the time there are many idle connections beside them.
    """
    counts, end = Counter[str](), time.monotonic() + seconds
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    crowd = (idle(port, seconds * 2 / 3, end) for _ in range(IDLE))
    clients = (
        client(port, Chance(f"{seed} {number}"), end, counts) for number in range(CONNECTIONS)
    )
    await asyncio.gather(*crowd, *clients)
    print(json.dumps(counts))


class Good:
    """A client that asks for what it may have, and knows the answers."""

    def __init__(self, port: int, index: Index) -> None:
        self.port, self.times, self.texts = port, list[float](), ["a dog eats", "the man"]
        self.vectors = index.encoder.encode(self.texts, normalize=True)
        self.hits = [hit.id for hit in index.search("a dog", 5, where="lang = 'en'")]

    def ask(self, path: str, **body: Any) -> Any:
        start = time.perf_counter()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status == 200, content
        self.times.append(time.perf_counter() - start)
        return json.loads(content)

    def round(self) -> None:
        data = self.ask("/v1/embeddings", input=self.texts)["data"]
        assert np.allclose([item["embedding"] for item in data], self.vectors, atol=1e-5)
        assert np.isclose(self.ask("/similarity", first=self.texts[:1])["similarities"][0][0], 1)
        assert [
            hit["id"]
            for hit in self.ask("/search", query="a dog", k=5, where="lang = 'en'")["hits"]
        ] == self.hits


@pytest.mark.slow
def test_hostile_clients_do_no_harm(tmp_path: Path) -> None:
    from isotune.use.search import Document, Index
    from tests.use.serve.conftest import serving

    print(f"ISOTUNE_SEED={SEED}")
    index, log = Index.create(tmp_path / "index", "bert-tiny"), tmp_path / "log"
    columns = [
        {"lang": "en", "year": 1990, "flag": True, "odd name": "x"},
        {"lang": None, "year": 2000, "flag": None},
    ]
    index.add(Document(f"{i}", f"a dog sees {i}", columns[i % 2]) for i in range(500))
    with serving(["bert-tiny", "--index", str(index.folder)], log, files=1024) as server:
        good = Good(server.port, index)
        for _ in range(10):
            good.round()
        alone, good.times, started = np.median(good.times), [], time.monotonic()
        start = most = server.memory()
        command = [
            sys.executable,
            "-m",
            "tests.hostile.test_server",
            *map(str, (server.port, SEED, SECONDS)),
        ]
        root = Path(__file__).parents[2]
        with subprocess.Popen(
            command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as hostile:
            while hostile.poll() is None:
                good.round()
                most = max(most, server.memory())
                time.sleep(0.02)
            out, err = hostile.communicate()
        with socket.create_connection(("127.0.0.1", server.port)) as half:
            half.sendall(
                b"POST /similarity HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"
            )
            ended = time.monotonic()
            server.popen.send_signal(signal.SIGTERM)
            assert server.popen.wait(30) == -signal.SIGTERM
            ended = time.monotonic() - ended
    said = log.read_text()
    tracebacks = len(re.findall(r"Traceback|in answering|panicked", said))
    minutes = (time.monotonic() - started) / 60
    counts = json.loads(out) if hostile.returncode == 0 else {}
    times = (
        f"median {np.median(good.times):.3f} s, worst {max(good.times):.2f} s (alone {alone:.3f} s)"
    )
    print(
        f"server: {counts.get('requests', 0):,} hostile requests {dict(sorted(counts.items()))}, "
        f"{len(good.times):,} right answers beside them: {times}; memory {start:.0f} to "
        f"{most:.0f} MB; log {len(said) / 1000:.0f} kB in {minutes:.1f} minutes; {tracebacks} "
        f"tracebacks; end after {ended:.1f} s"
    )
    assert hostile.returncode == 0, err[-3000:]
    assert (tracebacks, counts.get("500", 0)) == (0, 0), f"{said[-3000:]}{err[-3000:]}"
    assert max(good.times) < 1
    assert most < start + 300
    assert len(said) < 1e6 / 60 * (minutes + 2)  # 1 MB an hour
    assert ended < 10


if __name__ == "__main__":
    asyncio.run(attack(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
