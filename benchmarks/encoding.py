"""The tables of encoding: speed and quality of isotune and its peers, and what isotune's own settings rest on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from contenders import CONTENDERS
from machine import Noise
from rounds import Took, in_turn, ratio, seconds, spread
from scipy.stats import spearmanr
from worker import Worker

BASE = ("sentence-transformers", "float32")
BATCH_BYTES = tuple(2**power for power in range(18, 24))


def scored_pairs(count: int) -> tuple[list[str], list[float]]:
    """The sentences of so many pairs, first sides and then second ones, and the pairs' scores: STS-B's dev split."""
    from isotune.data import read_scored_pairs
    from isotune.errors import InputError

    try:
        pairs = read_scored_pairs("stsb:dev")
    except InputError:
        pairs = read_scored_pairs("stsb-open:dev")
    chosen = random.Random(0).sample(range(len(pairs.scores)), min(count, len(pairs.scores)))
    first, second = ([side[i] for i in chosen] for side in (pairs.sentence1, pairs.sentence2))
    return [*first, *second], [float(pairs.scores[i]) for i in chosen]


class Encoders:
    """Contenders in processes of their own, one for each library."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.workers: dict[str, Worker] = {}

    def load(self, contender: str, model: Path, process: str = "", **settings: Any) -> Callable[..., Took]:
        """Loads one; gives a function of texts (and of a file for the vectors) that runs it."""
        name = process or contender
        if name not in self.workers:
            self.workers[name] = Worker(self.cache / "workers.log")
        worker = self.workers[name]
        key = f"{contender} {settings}"
        worker.ask(
            "load", key=key, contender=contender, model=str(model), cache=str(self.cache / model.name), **settings
        )

        def run(texts: Sequence[str], save: Path | None = None) -> Took:
            return Took(**worker.ask("encode", key=key, texts=list(texts), save=str(save) if save else None))

        return run

    def forget(self) -> None:
        """Lets go of all models."""
        for worker in self.workers.values():
            worker.ask("forget")


@contextmanager
def encoders(cache: Path) -> Iterator[Encoders]:
    """Within it, contenders can be loaded; their processes end with it."""
    cache.mkdir(parents=True, exist_ok=True)
    made = Encoders(cache)
    try:
        yield made
    finally:
        for worker in made.workers.values():
            worker.close()


def against_peers(held: Encoders, model: Path, count: int, threads: int, rounds: int, noise: Noise) -> str:
    """One model's table, in Markdown."""
    held.forget()
    texts, scores = scored_pairs(count)
    runs = {
        (name, precision): held.load(name, model, precision=precision, threads=threads)
        for name, (_, precisions) in CONTENDERS.items()
        for precision in precisions
    }
    with TemporaryDirectory() as folder:
        vectors = {}
        for i, (key, run) in enumerate(runs.items()):
            run(texts, file := Path(folder) / f"{i}.npy")
            vectors[key] = _unit(np.load(file))
    took = in_turn({key: partial(run, texts) for key, run in runs.items()}, rounds, noise)
    base = seconds(took[BASE], threads)
    lines = []
    for key, found in took.items():
        own = seconds(found, threads)
        noise.spreads.append(spread(own))
        cosines = (vectors[key] * vectors[BASE]).sum(1)
        half = len(texts) // 2
        similar = (vectors[key][:half] * vectors[key][half:]).sum(1)
        lines.append(
            f"| {key[0]} | {key[1]} | {len(texts) / median(own):,.0f} | **{ratio(base, own):.2f}** | {spread(own):.0%} "
            f"| {cosines.mean():.4f} | {cosines.min():.4f} | {100 * spearmanr(similar, scores).statistic:.2f} |"
        )
    unit = "processor second" if threads == 1 else "second"
    head = f"| | | sentences a {unit} | ratio | spread | mean cosine | least | Spearman |"
    return "\n".join([head, "|---|---|---|---|---|---|---|---|", *lines])


def by_batch(held: Encoders, models: Mapping[Path, int], rounds: int, noise: Noise) -> str:
    """Speed by the size of a batch (a hidden state of its tokens), one thread, over the slowest of a line."""
    lines = [
        "| | | " + " | ".join(f"{size // 2**10:,} KiB" for size in BATCH_BYTES) + " |",
        "|---|---|" + "---|" * len(BATCH_BYTES),
    ]
    for model, count in models.items():
        held.forget()
        texts, _ = scored_pairs(count)
        for precision in CONTENDERS["isotune"][1]:
            load = partial(held.load, "isotune", model, precision=precision, threads=1)
            runs = {size: partial(load(batch_bytes=size), texts) for size in BATCH_BYTES}
            took = {key: seconds(found, 1) for key, found in in_turn(runs, rounds, noise).items()}
            slowest = max(took.values(), key=median)
            cells = " | ".join(f"{ratio(slowest, own):.2f}" for own in took.values())
            lines.append(f"| {model.name} | {precision} | {cells} |")
    return "\n".join(lines)


def by_threads(held: Encoders, models: Mapping[Path, int], threads: int, rounds: int, noise: Noise) -> str:
    """Isotune's speed-up over one thread: threads within each batch, threads with batches of their own, processes."""
    lines = ["| | | within a batch | a batch each | processes |", "|---|---|---|---|---|"]
    for model, count in models.items():
        held.forget()
        texts, _ = scored_pairs(count)
        for precision in CONTENDERS["isotune"][1]:
            load = partial(held.load, "isotune", model, precision=precision)
            single = [load(process=f"isotune {i}", threads=1) for i in range(threads)]
            runs = {
                "one": partial(single[0], texts),
                "within": partial(load(threads=threads, within=True), texts),
                "each": partial(load(threads=threads), texts),
                "processes": partial(_together, single, texts),
            }
            took = {key: seconds(found, threads) for key, found in in_turn(runs, rounds, noise).items()}
            one = took.pop("one")
            cells = " | ".join(f"{ratio(one, own):.2f}" for own in took.values())
            lines.append(f"| {model.name} | {precision} | {cells} |")
    return "\n".join(lines)


def _together(runs: Sequence[Callable[[Sequence[str]], Took]], texts: Sequence[str]) -> Took:
    """Each process encodes its share of the texts, all at the same time."""
    start = perf_counter()
    with ThreadPoolExecutor(len(runs)) as pool:
        found = list(pool.map(lambda i: runs[i](texts[i :: len(runs)]), range(len(runs))))
    return Took(perf_counter() - start, sum(one.cpu for one in found))


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Each of length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
