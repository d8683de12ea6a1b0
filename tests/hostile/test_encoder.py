"""Threads, forks and damaged model folders against the encoder.

Nothing is wrong, nothing hangs, and nobody waits.

The kinds are drawn from a seed, which is printed; ISOTUNE_SEED sets it. ISOTUNE_CALLS sets the
calls of the threads.
"""

import json
import multiprocessing
import os
import random
import resource
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from isotune.bundled import MODEL_FOLDER
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SEED = int(os.environ.get("ISOTUNE_SEED", time.time_ns() % 10**6))
CALLS = int(os.environ.get("ISOTUNE_CALLS", "8000"))
FOLDERS, FORKS = 120, CALLS // 40
PIECES = [
    "a",
    "dog",
    "[MASK]",
    "[PAD]",
    "[SEP]",
    "[UNK]",
    "<mask>",
    "un-like",
    "na\u00efve",
    "\u65e5",
    "\x00",
    "\n",
]
PROMPTS = ["", "query: ", "{sentence} means {mask} ."]
NUMBERS = (0, -1, 1, 2.5, 10**6, 10**12, True, False)
VALUES: list[Any] = [*NUMBERS, None, "", "x", "relu", "\ud800", [], ["a"], {}, {"a": None}]
TEXT = ["a dog runs", "a cat sleeps in the house of the man"]


def texts(draw: random.Random) -> list[str]:
    """One to three texts, of which some are above the limit."""
    return [
        " ".join(draw.choices(PIECES, k=draw.choice([0, 1, 5, 20, 90])))
        for _ in range(draw.randrange(1, 4))
    ]


def test_threads_and_processes_forked_meanwhile_get_the_ids_and_vectors_of_one() -> None:
    draw, encoders = random.Random(SEED), [Encoder.load("bert-tiny") for _ in range(2)]
    jobs = [(texts(draw), draw.choice(PROMPTS)) for _ in range(100)]
    for encoder in encoders:
        encoder.max_length = 32
    alone, shared = encoders
    expected = [(alone.tokenize(job, 16, prompt), alone.encode(job)) for job, prompt in jobs]

    def wrong(call: int) -> bool:
        (job, prompt), (ids, vectors) = jobs[call % len(jobs)], expected[call % len(jobs)]
        return shared.tokenize(job, 16, prompt) != ids or not np.allclose(
            shared.encode(job), vectors, atol=1e-5
        )

    def child(call: int) -> None:
        os._exit(3 if wrong(call) else 0)

    ends: Counter[int | None] = Counter()
    with ThreadPoolExecutor(16) as pool:
        results = pool.map(wrong, range(CALLS))
        for number in range(FORKS):
            process = multiprocessing.get_context("fork").Process(target=child, args=(number,))
            process.start()
            process.join(30)
            ends[process.exitcode] += 1
            process.kill()
        found = sum(results)
    print(f"\nthreads: seed {SEED}, {CALLS:,} calls from 16 threads, {found} wrong")
    print(f"forks: {FORKS} meanwhile, {ends[None]} hang, {ends[3]} wrong")
    assert (found, ends) == (0, {0: FORKS})


def damage(folder: Path, draw: random.Random) -> str:
    """Changes one thing of a model's folder, and says what."""
    path = draw.choice(
        sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    )
    what = draw.choice(["value"] * 6 + ["remove", "cut", "byte", "pipe", "zeros", "huge", "text"])
    if what == "value":
        path = draw.choice(
            [file for file in sorted(folder.rglob("*.json")) if file.name != "tokenizer.json"]
        )
        content = json.loads(path.read_text())
        target = draw.choice(content) if isinstance(content, list) else content
        key, value = (
            draw.choice([*target, "truncate_dim", "auto_map", "return_dict"]),
            draw.choice(VALUES),
        )
        target[key] = value
        path.write_text(json.dumps(content))
        return f"{path.relative_to(folder)}: {key} = {value!r}"
    size = path.stat().st_size
    if what in ("remove", "pipe", "zeros"):
        path.unlink()
    {
        "remove": lambda: None,
        "cut": lambda: os.truncate(path, draw.randrange(size)),
        "byte": lambda: path.write_bytes(bytes([draw.randrange(256)]) + path.read_bytes()[1:]),
        "pipe": lambda: os.mkfifo(path),
        "zeros": lambda: path.symlink_to("/dev/zero"),
        "huge": lambda: os.truncate(path, 10**11),
        "text": lambda: path.write_text("[" * 10**5),
    }[what]()
    return f"{path.relative_to(folder)}: {what}"


def outcome(folder: Path, logged: pytest.LogCaptureFixture) -> str:
    """What comes of a folder: "same", "warned", "line" and "only here" are right."""
    logged.clear()
    try:
        vectors = Encoder.load(folder).encode(TEXT)
    except InputError as error:
        return "line" if "\n" not in str(error) else "lines"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:200]
    if any(record.name.startswith("isotune") for record in logged.records):
        return "warned"
    try:
        theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXT)
    except Exception:
        return "only here"
    return "same" if np.allclose(vectors, theirs, atol=1e-4) else "other vectors"


def test_a_damaged_folder_gives_equal_vectors_a_warning_or_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    draw, counts, bad = random.Random(SEED), Counter[str](), []
    bases = [MODEL_FOLDER, tmp_path / "saved", tmp_path / "prompted"]
    saved = Encoder.load("bert-tiny", layers=(0, -1))
    saved.heads.append(Dense(saved.dimension, 8))
    saved.token_weights = torch.ones(saved.backbone.model.config.vocab_size)
    saved.save(bases[1])
    Encoder.load("bert-tiny", prompt="a {sentence} of {mask}", pooling="mask").save(bases[2])
    slowest, before = 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(FOLDERS):
        folder = Path(shutil.copytree(draw.choice(bases), tmp_path / "changed"))
        (folder / "SHA256SUMS").unlink(missing_ok=True)
        what, start = damage(folder, draw), time.perf_counter()
        end = outcome(folder, caplog)
        slowest = max(slowest, time.perf_counter() - start)
        counts[end] += 1
        if end not in ("same", "warned", "line", "only here"):
            bad.append((number, what, end))
        shutil.rmtree(folder)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    print(
        f"\nfolders: seed {SEED}, {FOLDERS} changed, {dict(counts)}, slowest {slowest:.1f} s, "
        f"{memory:.0f} MB more"
    )
    assert not bad
    assert slowest < 30  # seconds; other processes may share the machine
    assert memory < 1000
