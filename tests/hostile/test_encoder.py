"""Threads, forks and damaged model folders against the encoder: nothing wrong, nothing hangs, nobody waits.

The kinds are drawn from a seed, which is printed; ISOTUNE_SEED sets it. ISOTUNE_CALLS sets the calls of the threads.
"""

import json
import multiprocessing
import os
import random
import resource
import shutil
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isotune.bundled import bundled_model
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SEED = int(os.environ.get("ISOTUNE_SEED", time.time_ns() % 10**6))
CALLS = int(os.environ.get("ISOTUNE_CALLS", "8000"))
FOLDERS, FORKS = 120, 200
PIECES = [
    "a",
    "dog",
    "[MASK]",
    "[PAD]",
    "[SEP]",
    "[UNK]",
    "<mask>",
    "na\u00efve",
    "\u65e5\u672c",
    "\U0001f642",
    "\x00",
    "un-believable",
    "\n",
]
TEXT = ["a dog runs", "a cat sleeps in the house of the man"]


def texts(draw: random.Random) -> list[str]:
    """One to three texts, of which some are above the limit."""
    return [" ".join(draw.choices(PIECES, k=draw.choice([0, 1, 5, 20, 90]))) for _ in range(draw.randrange(1, 4))]


def test_sixteen_threads_get_the_vectors_of_one() -> None:
    encoder, draw = Encoder.load("bert-tiny"), random.Random(SEED)
    encoder.max_length = 32
    jobs = [texts(draw) for _ in range(100)]
    expected = [encoder.encode(job) for job in jobs]
    prompts = ["", "", "query: ", "{sentence} means {mask} ."]  # each with ids of its own, beside the vectors
    ids = [[encoder.tokenize(job, 16, prompt) for prompt in prompts] for job in jobs]
    encoder = Encoder.load("bert-tiny")  # which has prepared nothing yet
    encoder.max_length = 32

    def wrong(call: int) -> bool:
        job, prompt = call % len(jobs), call % len(prompts)
        right = encoder.tokenize(jobs[job], 16, prompts[prompt]) == ids[job][prompt]
        return not (right and np.allclose(encoder.encode(jobs[job]), expected[job], atol=1e-5))

    with ThreadPoolExecutor(16) as pool:
        found = sum(pool.map(wrong, range(CALLS)))
    print(f"\nthreads: seed {SEED}, {CALLS:,} calls from 16 threads, {found} wrong")
    assert found == 0


def test_forks_while_other_threads_encode() -> None:
    encoder, draw, done = Encoder.load("bert-tiny"), random.Random(SEED), Event()
    job = [text for _ in range(30) for text in texts(draw)]
    expected = encoder.encode(job)

    def encode() -> None:
        while not done.is_set():
            encoder.encode(job)

    def child() -> None:
        os._exit(0 if np.allclose(encoder.encode(job), expected, atol=1e-5) else 3)

    threads = [Thread(target=encode) for _ in range(2)]
    for thread in threads:
        thread.start()
    ends: Counter[int | None] = Counter()
    for _ in range(FORKS):
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(30)
        ends[process.exitcode] += 1
        process.kill()
    done.set()
    for thread in threads:
        thread.join()
    print(f"\nforks: seed {SEED}, {FORKS} while two threads encode, {ends[None]} hang, {ends[3]} wrong")
    assert ends == {0: FORKS}


VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2.5,
    10**6,
    10**12,
    "",
    "x",
    "relu",
    [],
    ["a"],
    {},
    {"a": None},
    "\ud800",
]


def mutate(folder: Path, draw: random.Random) -> str:
    """Changes one thing of a model's folder, and says what."""
    files = sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name not in ("README.md", "SHA256SUMS")
    )
    path, act = (
        draw.choice(files),
        draw.choice(["value"] * 6 + ["remove", "cut", "byte", "pipe", "zeros", "huge", "text"]),
    )
    name = path.relative_to(folder)
    if act == "value":
        path = draw.choice([file for file in files if file.suffix == ".json" and file.name != "tokenizer.json"])
        content = json.loads(path.read_text())
        target = draw.choice(content) if isinstance(content, list) else content
        key, value = draw.choice([*target, "truncate_dim", "auto_map", "return_dict"]), draw.choice(VALUES)
        target[key] = value
        path.write_text(json.dumps(content))
        return f"{path.relative_to(folder)}: {key} = {value!r}"
    size = path.stat().st_size
    if act in ("remove", "pipe", "zeros"):
        path.unlink()
    changes: dict[str, Callable[[], object]] = {
        "cut": lambda: os.truncate(path, draw.randrange(size)),
        "byte": lambda: path.write_bytes(bytes([draw.randrange(256)]) + path.read_bytes()[1:]),
        "pipe": lambda: os.mkfifo(path),
        "zeros": lambda: path.symlink_to("/dev/zero"),
        "huge": lambda: os.truncate(path, 10**11),
        "text": lambda: path.write_text("[" * 10**5),
    }
    changes.get(act, lambda: None)()
    return f"{name}: {act}"


def test_a_damaged_folder_gives_equal_vectors_a_warning_or_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    draw, counts, bad = random.Random(SEED), Counter[str](), []
    bases = [tmp_path / "plain", tmp_path / "saved", tmp_path / "prompted"]
    shutil.copytree(bundled_model(), bases[0])
    Encoder.load("bert-tiny").save(bases[1])
    Encoder.load("bert-tiny", prompt="a {sentence} of {mask}", pooling="mask").save(bases[2])
    slowest, before = 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(FOLDERS):
        folder = Path(shutil.copytree(draw.choice(bases), tmp_path / "changed"))
        (folder / "SHA256SUMS").unlink(missing_ok=True)
        what = mutate(folder, draw)
        caplog.clear()
        start = time.perf_counter()
        try:
            vectors = Encoder.load(folder).encode(TEXT)
            end = "warned" if [record for record in caplog.records if record.name.startswith("isotune")] else "same"
        except InputError as error:
            end = "line" if "\n" not in str(error) else "lines"
        except BaseException as error:
            end = f"{type(error).__name__}: {error}"[:200]
        slowest = max(slowest, time.perf_counter() - start)
        if end == "same":
            try:
                theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXT)
                end = end if np.allclose(vectors, theirs, atol=1e-4) else "other vectors"
            except Exception:
                end = "only here"
        counts[end] += 1
        if end not in ("same", "warned", "line", "only here"):
            bad.append((number, what, end))
        shutil.rmtree(folder)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    print(f"\nfolders: seed {SEED}, {FOLDERS} changed, {dict(counts)}, slowest {slowest:.1f} s, {memory:.0f} MB more")
    assert not bad
    assert slowest < 30  # seconds; other processes may share the machine
    assert memory < 1000
