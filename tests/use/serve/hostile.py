"""Hostile clients of a running server: python -m tests.use.serve.hostile PORT SEED REQUESTS SECONDS

They send bodies, headers, paths and filters of all kinds, right, nearly right and wrong, over several connections;
break connections at random places; and send and read slowly, for so many seconds at most. Each answer has to be one
that the request may get. Prints as JSON how many requests were sent, and how many answers had each status. The server
is that of `test_fuzz.py`.
"""

import asyncio
import json
import random
import socket
import string
import struct
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

FAST, SLOW = 16, 16  # connections of each kind
LARGE = 0.0005  # share of requests with a body of up to 5 MB
MODEL = "bert-tiny"
WORDS = "a the man woman dog cat is plays eats red small and with ball house über 犬 🎈 don't".split()  # noqa: SIM905
TYPES = {"text": "'a'", "lang": "'en'", "year": "1990", "score": "0.5", "flag": "true", "`odd name`": "'x'"}
INJECTIONS = [
    "length(repeat(text, 150000000)) > 1",
    "repeat(text, 100000000) = text",
    "lang = 'en'; DROP TABLE rows",
    "lang = 'en' UNION SELECT * FROM rows",
    "lang = 'en' -- and so on",
    "lang = 'en' /* and so on */",
    "1 = (SELECT count(*) FROM rows)",
    "regexp_match(text, '(a+)+$') IS NOT NULL",
    "cast(text AS int) = 1",
    "text || text = 'a'",
    "year + 1 = 2",
    "year = 1e999",
    "vector IS NOT NULL",
    "_rowid = 1",
    "text LIKE '" + "%_" * 300 + "'",
    "(" * 500 + "flag" + ")" * 400,
    "NOT " * 200 + "flag",
    "lang = 'en",
    "lang IN (SELECT lang FROM rows)",
    "lang IN ()",
    "'" + "a" * 2000 + "' = lang",
    "lang = U&'\\0065n'",
    'lang = "en"',
    "\0",
]
GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    "GET /é HTTP/1.1\r\nhost: localhost\r\n\r\n".encode(),
    b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: example.com\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost : localhost\r\n\r\n",
    b"GET / HTTP/1.1\nhost: localhost\n\n",
    b"\r\n\r\n\r\n\r\n",
    b"GET /health HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + b"x: a\r\n" * 3000 + b"\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"POST /similarity HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
    b"POST /similarity HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9" + b"9" * 30 + b"\r\n\r\n",
    b"POST /similarity HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    b"POST /similarity HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"POST /similarity HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\n",
    b"POST /similarity HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST /similarity HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n[]",
]


class Made(NamedTuple):
    """A request, and the statuses that its answer may have; none: it may have no answer."""

    content: bytes
    statuses: frozenset[int] = frozenset()


def made(method: str, path: str, body: bytes | None, statuses: set[int], kind: str = "application/json") -> Made:
    """A request of right HTTP."""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n"
    if body is not None:
        head += f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n"
    return Made(f"{head}\r\n".encode("utf-8", "replace") + (body or b""), frozenset(statuses))


class Requests:
    """Requests of all kinds, as chance has it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.kinds: dict[Callable[[], Made], int] = {
            self.right: 20,
            self.changed: 30,
            self.broken: 30,
            self.search: 3,
            self.plain: 25,
            self.garbage: 4,
        }

    def one(self) -> Made:
        if self.chance.random() < LARGE:
            return self.large()
        (make,) = self.chance.choices([*self.kinds], [*self.kinds.values()])
        return make()

    def text(self) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.choice((1, 3, 8, 20))))

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.chance.choice((1, 1, 2, 5)))]

    def fields(self) -> tuple[str, dict[str, Any]]:
        """A path and the fields of a right body for it."""
        if self.chance.random() < 0.6:
            fields: dict[str, Any] = {"model": MODEL, "input": self.chance.choice([self.text(), self.texts()])}
            if self.chance.random() < 0.5:
                fields["encoding_format"] = self.chance.choice(["float", "base64"])
            return "/v1/embeddings", fields
        fields = {"first": self.texts()}
        if self.chance.random() < 0.5:
            fields["second"] = self.texts()
        return "/similarity", fields

    def right(self) -> Made:
        path, fields = self.fields()
        return made("POST", path, json.dumps(fields).encode(), {200})

    def changed(self) -> Made:
        """A right body with one change, which may leave it right."""
        path, fields = self.fields()
        if self.chance.random() < 0.2:
            path, fields = "/search", {"query": self.text(), "k": self.chance.randint(1, 5), "where": None}
        name = self.chance.choice([*fields, "user", "dimensions", "k", "a" * 1000, "🎈"])
        match self.chance.randrange(3):
            case 0:
                fields.pop(name, None)
            case 1:
                fields[name] = self.strange()
            case 2 if isinstance(fields.get(name), list):
                fields[name].insert(self.chance.randrange(len(fields[name]) + 1), self.strange())
        body = json.dumps(fields, ensure_ascii=self.chance.random() < 0.8)
        return made("POST", path, body.encode("utf-8", "surrogatepass"), {200, 400, 404})

    def strange(self) -> Any:
        """A value that a field doesn't expect, or hardly."""
        chance, nested = self.chance, []
        for _ in range(chance.choice((1, 50))):
            nested = [nested]
        return chance.choice([
            None, True, 0, -1, 1.5, 1e308, float("nan"), float("inf"), 10**30, 10**400, "", " ", "\0", "\ud800",
            "a\udfff", "\u202e", "é" * 300, "a" * chance.choice((300, 70_000)) if chance.random() < 0.05 else "a", {},
            [], [[]], [None], [1, 2], ["a", 1], {"a": {"b": []}}, nested, string.printable, "bert-tiny", "../bert-tiny",
        ])  # fmt: skip

    def broken(self) -> Made:
        """Bytes that are no JSON, or hardly."""
        path, fields = self.fields()
        chance, body = self.chance, bytearray(json.dumps(fields).encode())
        kind = "application/json"
        match chance.randrange(6):
            case 0:
                del body[chance.randrange(len(body)) :]
            case 1 | 2:
                for _ in range(chance.choice((1, 1, 3, 10))):
                    body[chance.randrange(len(body))] = chance.randrange(256)
            case 3:
                body = bytearray(chance.choice((b"[", b'{"input":', b'[{"a":')) * chance.choice((10, 900, 20_000)))
            case 4:
                numbers = b"9" * chance.choice((300, 5000)), b"1e99999", b"-", b"NaN", b"\xff\xfe", b"\xef\xbb\xbf{}"
                body = bytearray(chance.choice(numbers))
            case 5:
                kind = chance.choice(["text/plain", "multipart/form-data", "application/json; charset=utf-16", "\\"])
        return made("POST", path, bytes(body), {200, 400, 404}, kind)

    def search(self) -> Made:
        fields: dict[str, Any] = {"query": self.text(), "k": self.chance.choice((1, 3, 10, 1000, 0, -1, 1001, 10**20))}
        statuses = {200} if 1 <= fields["k"] <= 1000 else {400}
        if self.chance.random() < 0.2:
            fields["hybrid"] = True
            if self.chance.random() < 0.5:
                fields["query"] = "".join(self.chance.choices(string.punctuation + "ab ", k=8)) + "a"
        if self.chance.random() < 0.9:
            where = self.condition(self.chance.randint(0, 3))
            match self.chance.randrange(4):
                case 0:
                    where, statuses = self.mutated(where), {200, 400}
                case 1:
                    where, statuses = self.chance.choice(INJECTIONS), {400}
            fields["where"] = where
        return made("POST", "/search", json.dumps(fields).encode(), statuses)

    def condition(self, depth: int) -> str:
        """A right filter."""
        chance = self.chance
        if depth:
            parts = [self.condition(depth - 1) for _ in range(chance.randint(1, 2))]
            joined = chance.choice([" AND ", " or "]).join(parts)
            return chance.choice(["({})", "NOT ({})", "not({})"]).format(joined)
        name, value = chance.choice([*TYPES.items()])
        forms = ["{0} = {1}", "{1}<={0}", "{0} != {1}", "{0} IS NULL", "{0} is not null", "{0} IN ({1}, {1})", "flag"]
        if value.startswith("'"):
            forms += ["{0} LIKE '%_a%'", "{0} NOT LIKE {1}", "{0} > text"]
        return chance.choice(forms).format(name, value)

    def mutated(self, where: str) -> str:
        signs = [*where]
        for _ in range(self.chance.choice((1, 1, 2, 5))):
            place = self.chance.randrange(len(signs))
            signs[place] = self.chance.choice(
                ["", "'", "`", "(", ")", " NOT ", "\0", "é", ";", "--", "1", signs[place] * 2]
            )
        return "".join(signs) or "1"

    def plain(self) -> Made:
        """A request without a body, to a path that may be there."""
        chance = self.chance
        paths = ["/", "/page.js", "/openapi.json", "/health", "/v1/models", f"/v1/models/{MODEL}", "/search"]
        paths += [
            "/v1/models/%2e%2e/%00",
            "/../../etc/passwd",
            "/%ff",
            "/%zz",
            "//",
            "/v1/embeddings/",
            "/" + "a" * 3000,
        ]
        paths += ["/health?a=%00&a", "*", "http://example.com/health", "/metrics"]
        method = chance.choice(["GET"] * 8 + ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST", "get", "A"])
        body = None if method != "POST" else b""
        return made(method, chance.choice(paths), body, {200, 307, 400, 404, 405})

    def garbage(self) -> Made:
        if self.chance.random() < 0.5:
            return Made(self.chance.choice(GARBAGE))
        content = bytearray(self.right().content)
        for _ in range(self.chance.choice((1, 3, 30))):
            content[self.chance.randrange(min(120, len(content)))] = self.chance.randrange(256)
        return Made(bytes(content))

    def large(self) -> Made:
        """Many texts, long texts, many mistakes, or too many bytes."""
        count = int(10 ** self.chance.uniform(1, 5.5))
        few = min(count, 2048) // 8
        body: Any = self.chance.choice([
            {"model": MODEL, "input": [self.text()] * few},
            {"model": MODEL, "input": ["a"] * count},
            {"model": MODEL, "input": [1] * count},
            {"model": MODEL, "input": "a dog " * count},
            {"model": MODEL, "input": "a" * count},
            {"first": [self.text()] * few},
            {f"{number}": 1 for number in range(count)},
            [[]] * count,
        ])  # fmt: skip
        content = json.dumps(body).encode()
        statuses = {200, 400} if len(content) < 4 * 2**20 else set()  # the server may break off a larger body
        return made("POST", "/similarity" if "first" in body else "/v1/embeddings", content, statuses)


class Client:
    """One hostile client at a time has a connection."""

    def __init__(self, port: int, seed: str, seconds: float, counts: Counter[str]) -> None:
        self.chance = random.Random(seed)
        self.requests, self.port, self.seconds, self.counts = Requests(self.chance), port, seconds, counts

    async def fast(self, left: list[int]) -> None:
        """Sends requests until none is left: one after another or some at a time; connections stay or break."""
        while left[0] > 0:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while left[0] > 0 and not reader.at_eof():
                    several = [self.requests.one() for _ in range(self.chance.choice((1, 1, 1, 4)))]
                    left[0] -= len(several)
                    self.counts["requests"] += len(several)
                    if self.chance.random() < 0.02:
                        await self.break_off(several[0].content, reader, writer)
                        break
                    await self.ask(several, reader, writer)
                writer.close()

    async def ask(self, several: list[Made], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Sends requests at once, and checks their answers."""
        writer.write(b"".join(request.content for request in several))
        for number, request in enumerate(several):
            sure = all(earlier.statuses for earlier in several[: number + 1])
            try:
                status, closes = await answer(reader, request.content.partition(b" ")[0], 90 if sure else 1)
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                assert not sure, f"no answer to {request.content[:3000]!r}"
                self.counts["without an answer"] += 1
                writer.close()
                raise ConnectionError from None
            self.counts[f"{status}"] += 1
            assert status < 500, f"{status} for {request.content[:3000]!r}"
            assert not request.statuses or status in request.statuses, f"{status} for {request.content[:3000]!r}"
            if closes or not request.statuses:
                writer.close()
                raise ConnectionError

    async def break_off(self, content: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Sends a part of a request, or all of it, and closes the connection at once, by FIN or RST."""
        writer.write(content[: self.chance.randrange(2 * len(content))])
        if self.chance.random() < 0.5:
            await asyncio.sleep(self.chance.random() / 50)
        if self.chance.random() < 0.5:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.counts["broken off"] += 1

    async def slow(self, left: list[int]) -> None:
        """Sends requests in small pieces, and takes answers so; the server may lose its patience."""
        while left[0] > 0:
            self.counts["requests"] += 1
            self.counts["slow"] += 1
            request, pieces = self.requests.one(), self.chance.randint(2, 30)
            pause = self.seconds * self.chance.random() ** 3 / pieces
            size = len(request.content) // pieces + 1
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=4096)
            with suppress(ConnectionError, TimeoutError):
                for start in range(0, len(request.content), size):
                    writer.write(request.content[start : start + size])
                    await writer.drain()
                    await asyncio.sleep(pause)
                for _ in range(pieces):
                    await asyncio.wait_for(reader.read(4096), 5)
                    await asyncio.sleep(pause)
                writer.close()


async def answer(reader: asyncio.StreamReader, method: bytes, seconds: float) -> tuple[int, bool]:
    """Reads an answer: its status, and whether the server closes the connection. Refusals of routes are one line."""
    async with asyncio.timeout(seconds):
        status = 100
        while status < 200:
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
        lines = [line.partition(b":") for line in head.lower().splitlines()[1:]]
        headers = {name: value.strip() for name, _, value in lines}
        if b"content-length" in headers:
            body = b"" if method == b"HEAD" else await reader.readexactly(int(headers[b"content-length"]))
        elif headers.get(b"transfer-encoding") == b"chunked":
            body = b""
            while size := int(await reader.readuntil(b"\r\n"), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        else:
            body = await reader.read()
    if status >= 400 and headers.get(b"content-type") == b"application/json":
        message = json.loads(body)["error"]["message"]
        assert len(message.splitlines()) == 1, message
        assert len(message) < 2000, message
    return status, headers.get(b"connection") == b"close"


async def main(port: int, seed: int, requests: int, seconds: float) -> None:
    """Has all clients ask."""
    counts, left = Counter[str](), [requests]
    clients = [Client(port, f"{seed} {number}", seconds, counts) for number in range(FAST + SLOW)]

    async def go() -> None:
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                group.create_task(client.fast(left) if number < FAST else client.slow(left))

    await go()
    print(json.dumps(counts))


if __name__ == "__main__":
    port, seed, requests, seconds = sys.argv[1:]
    asyncio.run(main(int(port), int(seed), int(requests), float(seconds)))
