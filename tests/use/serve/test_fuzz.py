"""Hostile clients (`hostile.py`) harm neither the server nor the client beside them.

The long test sends as many requests as $ISOTUNE_REQUESTS says, or 100,000.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotune.use.search import Document, Index
from tests.use.serve.conftest import Process, serving
from tests.use.serve.hostile import MODEL, WORDS

ROOT = Path(__file__).parents[3]
MOST = 1200  # MB of memory: docs/reliability.md


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index of 500 texts, with columns of several types."""
    chance, index = random.Random(0), Index.create(tmp_path_factory.mktemp("fuzz") / "index", MODEL)
    rows = (" ".join(chance.choices(WORDS, k=1 + number % 12)) for number in range(500))
    kinds: dict[str, Any] = {"lang": ["en", "de", None], "year": [1990, 2000], "score": [0.5, None, -1e9]}
    kinds |= {"flag": [True, False, None], "odd name": ["x", None]}
    columns = ({name: values[number % len(values)] for name, values in kinds.items()} for number in range(500))
    index.add(Document(f"{i}", text, more) for i, (text, more) in enumerate(zip(rows, columns, strict=True)))
    return index


@pytest.fixture
def server(index: Index, tmp_path: Path) -> Iterator[Process]:
    with serving([MODEL, "--index", str(index.folder)], tmp_path / "log") as process:
        yield process


class Good:
    """A client that asks for what it may have, and knows the answers."""

    def __init__(self, port: int, index: Index) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self.texts = [" ".join(WORDS[i:]) for i in range(len(WORDS))]
        self.vectors = index.encoder.encode(self.texts, normalize=True)
        filters = ["lang = 'en' AND year > 1995", "flag OR score < 0"]
        self.hits = {where: [hit.id for hit in index.search("a dog", 5, where=where)] for where in filters}
        self.times: list[float] = []

    def ask(self, path: str, **body: Any) -> Any:
        start = time.perf_counter()
        self.connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = self.connection.getresponse()
        content = answer.read()
        self.times.append(time.perf_counter() - start)
        assert answer.status == 200, content
        return json.loads(content)

    def embed(self, place: int) -> None:
        given = self.ask("/v1/embeddings", model=MODEL, input=self.texts[place:])["data"]
        assert np.allclose([item["embedding"] for item in given], self.vectors[place:], atol=1e-5)

    def search(self, where: str) -> None:
        hits = self.ask("/search", query="a dog", k=5, where=where)["hits"]
        assert [hit["id"] for hit in hits] == self.hits[where]


@pytest.mark.parametrize(
    ("requests", "slowest", "latest", "growth"),
    [
        (400, 1, 5.0, np.inf),  # other tests run beside it, and the server still warms up
        pytest.param(int(os.environ.get("ISOTUNE_REQUESTS", 100_000)), 90, 1.0, 1.2, marks=pytest.mark.slow),
    ],
)
def test_hostile_clients_do_no_harm(
    server: Process, index: Index, requests: int, slowest: float, latest: float, growth: float, tmp_path: Path
) -> None:
    good, chance, start, sizes = Good(server.port, index), random.Random(0), time.monotonic(), []
    command = [sys.executable, "-m", "tests.use.serve.hostile", *map(str, (server.port, 0, requests, slowest))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as hostile:
        try:
            while hostile.poll() is None:
                good.embed(chance.randrange(len(good.texts)))
                good.search(chance.choice([*good.hits]))
                sizes.append(server.memory())
                time.sleep(0.02)
            out, err = hostile.communicate()
        finally:
            hostile.kill()
    good.connection.close()
    seconds, times = time.monotonic() - start, np.array(good.times)
    shown = f"{np.median(times):.3f} s, {np.quantile(times, 0.99):.3f} s, {times.max():.3f} s"
    print(f"{out.strip()} in {seconds:.0f} s; {len(times)} right answers: median, 99 %, slowest: {shown}")
    third, last, most = sizes[len(sizes) // 3], sizes[-1], max(sizes)
    print(f"memory in MB: {third:.0f} after a third, {last:.0f} at the end, {most:.0f} at most")
    assert hostile.returncode == 0, err
    assert json.loads(out)["requests"] >= requests
    assert times.max() < latest  # seconds
    assert most < MOST
    assert last < growth * third
    assert server.stop() == 130
    said = (tmp_path / "log").read_text()
    assert not re.findall(r"Traceback|in answering|Exception|Error", said), said[-5000:]
