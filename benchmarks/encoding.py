"""The encoding tables: speed and quality of isotune and its peers.

Other tables are the measurements behind isotune's settings.
"""

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
from contenders import CONTENDERS, precisions
from machine import Noise
from rounds import Timing, in_turn, seconds, speedup, spread, table
from scipy.stats import spearmanr
from worker import Worker

BASE = ("sentence-transformers", "float32")
BATCH_BYTES = tuple(2**power for power in range(18, 24))


def scored_pairs(count: int) -> tuple[list[str], list[float]]:
    """The sentences and scores of `count` pairs of STS-B's dev split.

    All first sentences come before all second ones.
    """
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
    """Loads contenders in worker processes.

    There is one process for each library, unless another name is given.
    """

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.workers: dict[str, Worker] = {}

    def load(
        self, contender: str, model: Path, process: str = "", **settings: Any
    ) -> Callable[..., Timing]:
        """Loads a contender.

        Returns a function that encodes texts and can save the vectors to a file.
        """
        name = process or contender
        if name not in self.workers:
            self.workers[name] = Worker(self.cache / "workers.log")
        worker = self.workers[name]
        key = f"{contender} {settings}"
        worker.ask(
            "load",
            key=key,
            contender=contender,
            model=str(model),
            cache=str(self.cache / model.name),
            **settings,
        )

        def run(texts: Sequence[str], save: Path | None = None) -> Timing:
            return Timing(
                **worker.ask("encode", key=key, texts=list(texts), save=str(save) if save else None)
            )

        return run

    def forget(self) -> None:
        """Frees all models."""
        for worker in self.workers.values():
            worker.ask("forget")


@contextmanager
def encoders(cache: Path) -> Iterator[Encoders]:
    """A context in which contenders can be loaded; their processes end with it."""
    cache.mkdir(parents=True, exist_ok=True)
    contenders = Encoders(cache)
    try:
        yield contenders
    finally:
        for worker in contenders.workers.values():
            worker.close()


def against_peers(
    contenders: Encoders, model: Path, count: int, threads: int, rounds: int, noise: Noise
) -> str:
    """The table of encoding speed and quality for one model, in Markdown."""
    contenders.forget()
    texts, scores = scored_pairs(count)
    runs = {
        (name, precision): contenders.load(name, model, precision=precision, threads=threads)
        for name in CONTENDERS
        for precision in precisions(name)
    }
    with TemporaryDirectory() as folder:
        vectors = {}
        for i, (key, run) in enumerate(runs.items()):
            run(texts, file := Path(folder) / f"{i}.npy")
            vectors[key] = np.load(file)
            vectors[key] /= np.linalg.norm(vectors[key], axis=1, keepdims=True)
    timings = in_turn({key: partial(run, texts) for key, run in runs.items()}, rounds, noise)
    base = seconds(timings[BASE], threads)
    rows = []
    for key in timings:
        times = seconds(timings[key], threads)
        noise.spreads.append(spread(times))
        cosines = (vectors[key] * vectors[BASE]).sum(1)
        half = len(texts) // 2
        similar = (vectors[key][:half] * vectors[key][half:]).sum(1)
        row = [
            *key,
            f"{len(texts) / median(times):,.0f}",
            f"**{speedup(base, times):.2f}**",
            f"{spread(times):.0%}",
        ]
        row += [
            f"{cosines.mean():.4f}",
            f"{cosines.min():.4f}",
            f"{100 * spearmanr(similar, scores).statistic:.2f}",
        ]
        rows.append(row)
    unit = "processor second" if threads == 1 else "second"
    against = "sentence-transformers in float32"
    columns = [
        "library",
        "precision",
        f"sentences a {unit}",
        f"speed-up against {against}",
        "spread",
    ]
    return table([*columns, f"mean cosine to {against}", "lowest cosine", "Spearman"], rows)


def by_batch(contenders: Encoders, models: Mapping[Path, int], rounds: int, noise: Noise) -> str:
    """The table of isotune's speed by batch size, on one thread, in Markdown.

    The size is that of one hidden state of all tokens of a batch. A speed is relative to the
    slowest of its line.
    """
    rows = []
    for model, count in models.items():
        contenders.forget()
        texts, _ = scored_pairs(count)
        for precision in precisions("isotune"):
            load = partial(contenders.load, "isotune", model, precision=precision, threads=1)
            runs = {size: partial(load(batch_bytes=size), texts) for size in BATCH_BYTES}
            rounds_of = {
                size: seconds(timings, 1) for size, timings in in_turn(runs, rounds, noise).items()
            }
            slowest = max(rounds_of.values(), key=median)
            rows.append(
                [
                    model.name,
                    precision,
                    *(f"{speedup(slowest, times):.2f}" for times in rounds_of.values()),
                ]
            )
    return table(["model", "precision", *(f"{size // 2**10:,} KiB" for size in BATCH_BYTES)], rows)


def by_threads(
    contenders: Encoders, models: Mapping[Path, int], threads: int, rounds: int, noise: Noise
) -> str:
    """The table of isotune's speed-up against one thread, for two ways to use several cores.

    It is in Markdown.
    """
    rows = []
    for model, count in models.items():
        contenders.forget()
        texts, _ = scored_pairs(count)
        for precision in precisions("isotune"):
            load = partial(contenders.load, "isotune", model, precision=precision)
            single = [load(process=f"isotune {i}", threads=1) for i in range(threads)]
            runs = {
                "one thread": partial(single[0], texts),
                "threads": partial(load(threads=threads), texts),
                "processes": partial(_in_parallel, single, texts),
            }
            rounds_of = {
                key: seconds(timings, threads)
                for key, timings in in_turn(runs, rounds, noise).items()
            }
            base = rounds_of.pop("one thread")
            rows.append(
                [
                    model.name,
                    precision,
                    *(f"{speedup(base, times):.2f}" for times in rounds_of.values()),
                ]
            )
    return table(
        ["model", "precision", "one batch for each thread", "one process for each core"], rows
    )


def _in_parallel(runs: Sequence[Callable[[Sequence[str]], Timing]], texts: Sequence[str]) -> Timing:
    """All processes together encode the texts, each an equal share."""
    start = perf_counter()
    with ThreadPoolExecutor(len(runs)) as pool:
        timings = list(pool.map(lambda i: runs[i](texts[i :: len(runs)]), range(len(runs))))
    return Timing(perf_counter() - start, sum(timing.cpu for timing in timings))
