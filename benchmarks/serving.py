"""Compares `isotune serve` with other servers of embeddings, in turn.

It measures requests a second and latency.

    python benchmarks/serving.py MODEL [--infinity PROGRAM]
        [--clients 16] [--seconds 10] [--rounds 3]

MODEL is the folder of an encoder. Each client sends one sentence of STS-B's dev split after the
other, so sentences have mixed lengths, and a client waits for each answer. The servers are isotune
in float32 and bfloat16; FastAPI around sentence-transformers, which must both be installed beside
isotune; and, with the program infinity_emb of an environment of its own, infinity on torch in
float32 and bfloat16 and on ONNX Runtime, whose graph its optimum-cli exports first. All servers are
loaded; only one is measured at a time. Linux only. The environment, with the versions that were
tried:

    python -m venv /tmp/peer
    /tmp/peer/bin/pip install 'infinity-emb[server,torch,optimum]==0.0.78' 'transformers==4.57.6'
    python benchmarks/serving.py MODEL --infinity /tmp/peer/bin/infinity_emb

Beside the rate stands the number of requests that a server answers in a second of its processor
time, which other programs on the machine disturb less.
"""

import argparse
import asyncio
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from typing import NamedTuple
from urllib.request import urlopen

from encoding import scored_pairs
from machine import Noise, processor
from rounds import in_turn, spread, table

# FastAPI as its tutorials have it: a route that is a plain function runs in a thread.
FASTAPI = """
import sys, uvicorn
from fastapi import FastAPI
from sentence_transformers import SentenceTransformer

app, encoder = FastAPI(), SentenceTransformer(sys.argv[1], device="cpu")

@app.get("/health")
def health():
    return {}

@app.post("/v1/embeddings")
def embeddings(body: dict):
    vectors = encoder.encode([body["input"]], normalize_embeddings=True, show_progress_bar=False)
    data = [{"index": i, "embedding": vector.tolist()} for i, vector in enumerate(vectors)]
    return {"data": data}

uvicorn.run(app, port=int(sys.argv[2]), access_log=False, log_level="error")
"""


class Result(NamedTuple):
    """What a server did in a round: answers, seconds by the clock and of the processor.

    Each answer's seconds are there too.
    """

    wall: float
    cpu: float
    seconds: list[float]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.wall

    def quantile(self, share: float) -> float:
        """The latency in milliseconds that this share of the answers has at most."""
        return 1000 * sorted(self.seconds)[int(share * (len(self.seconds) - 1))]


class Server:
    """A server of a model in a process; isotune names a model by its folder."""

    def __init__(
        self,
        command: list[str],
        model: Path,
        port: int,
        path: str = "/v1/embeddings",
        folder: Path | None = None,
    ) -> None:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        self.log = TemporaryFile()  # noqa: SIM115 - it is open as long as the server runs
        self.process = subprocess.Popen(
            command, env=environment, stdout=self.log, stderr=self.log, cwd=folder
        )
        self.model, self.port, self.path = model.name, port, path

    def wait(self, seconds: float = 180) -> None:
        """Waits until the server answers."""
        end = time.monotonic() + seconds
        while True:
            try:
                urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
                return
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    self.log.seek(0)
                    command = shlex.join(map(str, self.process.args))
                    raise SystemExit(
                        f"{command} does not answer:\n{self.log.read().decode()}"
                    ) from None
                time.sleep(0.5)

    def measure(self, texts: list[str], clients: int, seconds: float) -> Result:
        """Sends requests for some seconds."""
        taken: list[float] = []
        cpu, start = self._cpu(), time.perf_counter()
        asyncio.run(self._load(texts, clients, start + seconds, taken))
        return Result(time.perf_counter() - start, self._cpu() - cpu, taken)

    async def _load(self, texts: list[str], clients: int, end: float, taken: list[float]) -> None:
        await asyncio.gather(
            *(self._client(random.Random(seed), texts, end, taken) for seed in range(clients))
        )

    async def _client(
        self, rng: random.Random, texts: list[str], end: float, taken: list[float]
    ) -> None:
        """One client: a connection, and a request after the other."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while (start := time.perf_counter()) < end:
            body = json.dumps({"input": rng.choice(texts), "model": self.model}).encode()
            head = f"POST {self.path} HTTP/1.1\r\nhost: localhost\r\n"
            head += "content-type: application/json\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b" 200 " not in answer:
                raise RuntimeError(answer.decode())
            _, _, rest = answer.partition(b"content-length:")
            if rest:
                await reader.readexactly(int(rest.split()[0]))
            else:
                # The answer comes in chunks, of which the last is empty.
                await reader.readuntil(b"\r\n0\r\n\r\n")
            taken.append(time.perf_counter() - start)
        writer.close()

    def _cpu(self) -> float:
        """Processor seconds of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Starts the servers, measures them in turn, and prints a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--infinity", metavar="PROGRAM")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    texts, _ = scored_pairs(1000)
    with TemporaryDirectory() as folder:
        results, noise = measure(
            start(options.model.resolve(), options.infinity, Path(folder)), texts, options
        )
    print(processor(), noise.verdict(), sep="\n")
    print(medians(results))


def measure(
    servers: dict[str, Server], texts: list[str], options: argparse.Namespace
) -> tuple[dict[str, list[Result]], Noise]:
    """Measures the servers in turn, and stops them."""
    noise = Noise()
    try:
        for server in servers.values():
            server.wait()
        runs = {
            name: partial(server.measure, texts, options.clients, options.seconds)
            for name, server in servers.items()
        }
        results = in_turn(runs, options.rounds, noise)
    finally:
        for server in servers.values():
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
    noise.spreads = [spread([result.rate for result in rounds]) for rounds in results.values()]
    return results, noise


def start(model: Path, infinity: str | None, graph: Path) -> dict[str, Server]:
    """Starts all servers; infinity's ONNX graph is written to the folder `graph`."""
    servers = {}
    for precision in ("float32", "bfloat16"):
        command = [
            sys.executable,
            "-m",
            "isotune",
            "serve",
            str(model),
            "--precision",
            precision,
            "--port",
        ]
        servers[f"isotune {precision}"] = Server([*command, str(port := free_port())], model, port)
    command = [sys.executable, "-c", FASTAPI, str(model)]
    servers["FastAPI + sentence-transformers float32"] = Server(
        [*command, str(port := free_port())], model, port
    )
    if infinity:
        command = [
            infinity,
            "v2",
            "--served-model-name",
            model.name,
            "--device",
            "cpu",
            "--no-vector-disk-cache",
        ]
        command += ["--no-bettertransformer", "--no-compile"]
        exporter = str(Path(infinity).with_name("optimum-cli"))
        task = ["--library", "transformers", "--task", "feature-extraction"]
        subprocess.run([exporter, "export", "onnx", "-m", model, *task, graph], check=True)
        for name, source, engine, precision in (
            ("infinity float32", str(model), "torch", "float32"),
            ("infinity bfloat16", str(model), "torch", "bfloat16"),
            # It finds a graph only in the folder that it runs in.
            ("infinity ONNX float32", ".", "optimum", "float32"),
        ):
            words = [*command, "--model-id", source, "--engine", engine, "--dtype", precision]
            words += ["--port", str(port := free_port())]
            servers[name] = Server(words, model, port, "/embeddings", graph)
    return servers


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def medians(results: dict[str, list[Result]]) -> str:
    """The medians of the rounds, in Markdown."""
    rows = []
    for name, rounds in results.items():
        numbers = [
            (r.rate, r.quantile(0.5), r.quantile(0.99), len(r.seconds) / r.cpu) for r in rounds
        ]
        rows.append([name, *(f"{median(values):.0f}" for values in zip(*numbers, strict=True))])
    columns = [
        "server",
        "requests a second",
        "p50 in ms",
        "p99 in ms",
        "requests a processor second",
    ]
    return table(columns, rows)


if __name__ == "__main__":
    main()
