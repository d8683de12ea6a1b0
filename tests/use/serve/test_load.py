"""A server under load: every answer is its request's, memory stays flat, and the server stops cleanly.

The test takes as many seconds as $ISOTUNE_LOAD_SECONDS says, or 120. In the suite, `test_fuzz.py` loads a server.
"""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from isotune.encoder.encoder import Encoder
from tests.use.serve.conftest import Process, serving

CLIENTS, QUEUE = 16, 12
SECONDS = int(os.environ.get("ISOTUNE_LOAD_SECONDS", 120))
WRONG = {
    b'{"model": "tiny", "input": []}': 400,
    b'{"model": "tiny", "input": [1, 2]}': 400,
    b'{"model": "tiny"': 400,
    b'{"model": "other", "input": "a"}': 404,
}


@pytest.fixture
def process(tiny_model: Path, tmp_path: Path) -> Iterator[Process]:
    with serving([str(tiny_model), f"--queue={QUEUE}"], tmp_path / "log") as process:
        yield process


class Client(threading.Thread):
    """Sends requests of all kinds until a time, and checks every answer."""

    def __init__(self, seed: int, port: int, end: float, texts: list[str], vectors: np.ndarray) -> None:
        super().__init__()
        self.random, self.port, self.end = random.Random(seed), port, end
        self.texts, self.vectors = texts, vectors
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        while time.monotonic() < self.end:
            kind = self.random.random()
            if kind < 0.1:
                body, status = self.random.choice(list(WRONG.items()))
                self.counts["right" if self.ask(connection, body)[0] in (status, 429) else "wrong"] += 1
            elif kind < 0.15:
                self.send(connection, self.some()[1])
                connection.close()  # without waiting for the answer
            else:
                self.encode(connection)
        connection.close()

    def encode(self, connection: HTTPConnection) -> None:
        places, body = self.some()
        status, answer = self.ask(connection, body)
        if status == 429:
            self.counts["refused"] += 1
        else:
            given = np.array([item["embedding"] for item in answer["data"]])
            right = status == 200 and np.allclose(given, self.vectors[places], atol=1e-5)
            self.counts["right" if right else "wrong"] += 1

    def some(self) -> tuple[list[int], bytes]:
        places = self.random.choices(range(len(self.texts)), k=self.random.choice([1, 1, 1, 3, 50]))
        return places, json.dumps({"model": "tiny", "input": [self.texts[i] for i in places]}).encode()

    def ask(self, connection: HTTPConnection, body: bytes) -> tuple[int, dict[str, list[dict[str, object]]]]:
        self.send(connection, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def send(self, connection: HTTPConnection, body: bytes) -> None:
        connection.request("POST", "/v1/embeddings", body, {"content-type": "application/json"})


@pytest.mark.slow
def test_every_answer_is_right_under_load(process: Process, tiny: Encoder, sentences: list[str]) -> None:
    start = time.monotonic()
    vectors = tiny.encode(sentences, normalize=True)
    clients = [Client(seed, process.port, start + SECONDS, sentences, vectors) for seed in range(CLIENTS)]
    for client in clients:
        client.start()
    sizes = []
    while any(client.is_alive() for client in clients):
        sizes.append(process.memory())
        time.sleep(SECONDS / 60)
    counts = sum((client.counts for client in clients), Counter())
    print(dict(counts), f"memory in MB: {sizes[len(sizes) // 3]:.0f} after a third, {sizes[-1]:.0f} at the end")
    assert counts["wrong"] == 0
    assert counts["right"] > 10 * SECONDS
    assert counts["refused"] > 0
    assert sizes[-1] < 1.05 * sizes[len(sizes) // 3] + 5
    assert process.stop() == 130
