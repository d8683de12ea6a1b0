"""Without a writable home, a network, a second core, UTF-8 or assertions; with fork and spawn."""

import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import isotune
from tests.crashes.commands import in_new_process
from tests.crashes.work import Inputs, make_inputs

SENTENCES = [
    "a dog eats",
    "ein Hund frißt",
    "犬が食べる",
    "un chien mange 🐕",
    "a cat plays",
    "the man is big",
] * 3
HOMELESS = {
    "HOME": "/proc/nowhere",
    "LC_ALL": "C",
    "PYTHONIOENCODING": "ascii",
    "OMP_NUM_THREADS": "1",
}
DROPPED = ("HF_HOME", "HF_HUB_OFFLINE", "XDG_CACHE_HOME", "ISOTUNE_DATA", "LANG", "MPLCONFIGDIR")


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    return make_inputs(tmp_path / "inputs")


def python(
    folder: Path, *arguments: str, prefix: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder."""
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    return subprocess.run(
        [*prefix, sys.executable, *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


ENCODE = ["encode", "run/encoder", "größe.txt", "--out", "vectors.parquet"]
OTHERS = [
    ["index", "run/encoder", "größe.txt", "--out", "index"],
    ["search", "index", "Hund"],
    ["evaluate", "run/encoder", "--tasks", "pairs.csv"],
    ["doctor"],
]


@pytest.mark.parametrize("others", [[], pytest.param(OTHERS, marks=pytest.mark.slow)])
def test_without_home_and_utf_8_on_one_core(
    others: list[list[str]], inputs: Inputs, tmp_path: Path
) -> None:
    (tmp_path / "größe.txt").write_text("\n".join(SENTENCES), "utf-8")
    pairs = [f"{first},{second},{len(first) % 5}" for first, second in pairwise(SENTENCES[:7])]
    (tmp_path / "pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *pairs]), "utf-8")
    run = [
        "train",
        "größe.txt",
        "--model",
        inputs.model,
        "--method",
        "simcse",
        "--steps=2",
        "--eval-every=1",
    ]
    run += ["--batch-size=4", "--dev=pairs.csv", "--tasks=pairs.csv", "--out=run"]
    lines = [run, ENCODE, *others]
    code = (
        "import sys; from isotune.cli import main; "
        f"sys.exit(max([main(words) for words in {lines}]))"
    )
    prefix = ("taskset", "-c", "0") if shutil.which("taskset") else ()
    without_assertions = ("-O",) if others else ()  # all modules are compiled again for it
    outcome = python(tmp_path, *without_assertions, "-c", code, prefix=prefix, **HOMELESS)
    assert outcome.returncode == 0, outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert "gr\\xf6\\xdfe.txt" in outcome.stderr
    assert not others or "fri\\xdft" in outcome.stdout


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that never answers: its queue of connections is full."""
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        clients = [socket.socket() for _ in range(4)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        for client in clients:
            client.close()


NETWORK = """
import sys, time
from isotune.cli import main
for words in {lines}:
    began = time.monotonic()
    code = main(words)
    print("ended:", code, time.monotonic() - began)
"""


@pytest.mark.slow
@pytest.mark.parametrize("network", ["refuses", "is silent"])
def test_without_a_network(network: str, inputs: Inputs, silent: str, tmp_path: Path) -> None:
    address = silent if network == "is silent" else "http://127.0.0.1:9"
    lines = [
        ["export", "somebody/some-encoder", "--out", "onnx"],
        ["train", "hub:somebody/some-data", "--model", inputs.model],
        ["datasets", "fetch", "stsb"],
    ]
    addresses = dict.fromkeys(("HF_ENDPOINT", "http_proxy", "https_proxy"), address) | {
        "NO_PROXY": "",
        "no_proxy": "",
    }
    outcome = python(
        tmp_path, "-c", NETWORK.format(lines=lines), HF_HOME=str(tmp_path / "home"), **addresses
    )
    print(outcome.stdout, outcome.stderr)
    assert "Traceback" not in outcome.stderr
    assert sum(line.startswith("error: ") for line in outcome.stderr.splitlines()) == len(lines)
    ends = [line.split()[1:] for line in outcome.stdout.splitlines() if line.startswith("ended:")]
    assert len(ends) == len(lines)
    for code, seconds in ends:
        assert code == "2"
        assert float(seconds) < 60


TEXTS = ["a dog eats", "the man plays with a ball", "a cat"] * 200
forked: list[isotune.Encoder] = []  # what a process has that is forked from one that has encoded


def encode(model: str) -> np.ndarray:
    (encoder,) = forked or [isotune.Encoder.load(model)]
    return encoder.encode(TEXTS)


def encode_in_children(method: str, model: str) -> None:
    torch.set_num_threads(2)
    forked[:] = [isotune.Encoder.load(model)]
    expected = encode(model)
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        for vectors in pool.map(encode, [model] * 3):
            np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_encoding_in_children(method: str, inputs: Inputs) -> None:
    in_new_process(encode_in_children, method, inputs.model)
