"""The training tables of isotune and sentence-transformers: speed, losses and scores."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from socket import create_server
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

from encoding import scored_pairs
from machine import Noise
from rounds import Timing, in_turn, seconds, speedup, spread, table
from scipy.stats import spearmanr
from worker import Worker

BATCH = 64
DROPOUT = 0.1
LEARNED_STEPS, DEV_PAIRS = 40, 500
Key = TypeVar("Key")


class Way(NamedTuple):
    """Processes that train together, and the threads of each."""

    processes: int
    threads: int


def libraries(device: str = "cpu") -> list[tuple[str, str]]:
    """The libraries and the precisions that a kind of device has instructions for."""
    from isotune.kernels.precision import has_bfloat16

    precisions = ["float32", "bfloat16"] if has_bfloat16(device) else ["float32"]
    return [
        (library, precision)
        for library in ("sentence-transformers", "isotune")
        for precision in precisions
    ]


def sentences(count: int) -> list[str]:
    """`count` of STS-B's training sentences, or of the bundled ones.

    They are shuffled and repeated as often as needed.
    """
    from isotune.data import Sentence, read
    from isotune.errors import InputError

    try:
        rows = list(read("stsb:train", Sentence))
    except InputError:
        rows = list(read("stsb-open:train", Sentence))
    texts = [row.sentence for row in rows]
    random.Random(0).shuffle(texts)
    return list(islice((text for _ in range(-(-count // len(texts))) for text in texts), count))


@contextmanager
def waiting(
    settings: Mapping[Key, Mapping[str, Any]], steps: int, log: Path
) -> Iterator[dict[Key, Callable[[], Timing]]]:
    """Trainings that wait between two steps.

    A call of a value lets that training make `steps` more steps.

    The settings are the fields of `trainers.Training`, and "processes" if several train together.
    The log gets what they print.
    """
    groups: dict[Key, list[Worker]] = {}
    with TemporaryDirectory() as folder:
        try:
            for number, (key, given) in enumerate(settings.items()):
                options = {"dropout": DROPOUT, "threads": 1, "batch": BATCH, **given}
                groups[key] = _launch(options.pop("processes", 1), log, Path(folder, str(number)))
                for worker in groups[key]:
                    worker.tell("train", timed=True, **options)
            yield {key: partial(_make_steps, group, steps) for key, group in groups.items()}
        finally:
            for worker in chain(*groups.values()):
                worker.close()


def speed(model: Path, steps: int, threads: int, rounds: int, noise: Noise, log: Path) -> str:
    """The table of training speed for one model, in Markdown.

    A round is `steps` steps of 64 sentences, each twice.
    """
    shared = {
        "model": str(model),
        "threads": threads,
        "texts": sentences(BATCH * (steps * (rounds + 1) + 1)),
    }
    keys = libraries()
    with waiting(
        {key: {"contender": key[0], "precision": key[1], **shared} for key in keys}, steps, log
    ) as runs:
        rounds_of = {
            key: seconds(timings, threads) for key, timings in in_turn(runs, rounds, noise).items()
        }
    noise.spreads += map(spread, rounds_of.values())
    unit = "processor second" if threads == 1 else "second"
    bases = [key for key in keys if key[0] == "sentence-transformers"]
    columns = ["library", "precision", f"sentences a {unit}"]
    columns += [
        *(f"speed-up against {library} in {precision}" for library, precision in bases),
        "spread",
    ]
    rows = []
    for key, times in rounds_of.items():
        ratios = [f"{speedup(rounds_of[base], times):.2f}" for base in bases]
        rows.append(
            [*key, f"{BATCH * steps / median(times):,.0f}", *ratios, f"{spread(times):.0%}"]
        )
    return table(columns, rows)


def by_ways(
    model: Path,
    steps: int,
    threads: Sequence[int],
    processes: int,
    rounds: int,
    noise: Noise,
    log: Path,
) -> str:
    """The table of ways to use several cores, for one model, in Markdown, by the clock.

    The ways are one process with each of these numbers of threads and, of isotune, several
    processes with one thread. A round is `steps` steps of 64 sentences, each twice.
    """
    ways = {library: [Way(1, count) for count in threads] for library, _ in libraries()}
    ways["isotune"].append(Way(processes, 1))
    keys = [(*contender, way) for contender in libraries() for way in ways[contender[0]]]
    shared = {"model": str(model), "texts": sentences(BATCH * (2 * steps * (rounds + 1) + 1))}
    settings = {
        (library, precision, way): {
            "contender": library,
            "precision": precision,
            **way._asdict(),
            **shared,
        }
        for library, precision, way in keys
    }
    with waiting(settings, steps, log) as runs:
        quiet = in_turn(runs, rounds, noise)
        with _busy_neighbour():
            busy = in_turn(runs, rounds, Noise())
    rows = []
    for key in keys:
        walls, beside = ([timing.wall for timing in timings[key]] for timings in (quiet, busy))
        first = [timing.wall for timing in quiet[*key[:2], ways[key[0]][0]]]
        noise.spreads.append(spread(walls))
        speeds = [f"{BATCH * steps / median(times):,.0f}" for times in (walls, beside)]
        cpu = median(timing.cpu for timing in quiet[key]) / steps
        ratio = f"**{median(first) / median(walls):.2f}**"
        rows.append(
            [*key[:2], *key[2], speeds[0], ratio, f"{spread(walls):.0%}", f"{cpu:.2f}", speeds[1]]
        )
    columns = ["library", "precision", "processes", "threads of each", "sentences a second"]
    columns += ["speed-up against the first line", "spread", "processor seconds a step"]
    return table([*columns, "sentences a second beside a busy process"], rows)


def learned(model: Path, log: Path, device: str = "cpu") -> str:
    """The table of losses, and of Spearman after training, for one model, in Markdown.

    Both libraries train on the same rows in the same batches, without dropout; isotune where
    ISOTUNE_DEVICE says.
    """
    texts = sentences(BATCH * LEARNED_STEPS)
    dev, scores = scored_pairs(DEV_PAIRS)
    half = len(dev) // 2
    options = {"model": str(model), "threads": 1, "batch": BATCH, "dropout": 0.0, "timed": False}
    options["pairs"] = list(zip(dev[:half], dev[half:], strict=True))
    results: dict[tuple[str, str], dict[str, Any]] = {}
    keys, in_order = libraries(device), texts
    for contender, precision in reversed(keys):
        worker, place = Worker(log), {} if contender == "isotune" else {"device": device}
        rows = texts if contender == "isotune" else in_order
        result = worker.ask(
            "train", contender=contender, precision=precision, texts=rows, **options, **place
        )
        results[contender, precision] = result
        worker.close()
        if "order" in result:
            # isotune trains first and shuffles the rows; sentence-transformers gets them in that
            # order.
            in_order = [texts[i] for numbers in result["order"] for i in numbers]
    base = results[keys[0]]["losses"]
    shown = range(0, LEARNED_STEPS, LEARNED_STEPS // 4)
    lines = []
    for key in keys:
        losses = results[key]["losses"]
        difference = fmean(abs(a - b) for a, b in zip(losses, base, strict=True))
        spearman = spearmanr(results[key]["cosines"], scores).statistic
        numbers = [
            *(f"{losses[step]:.4f}" for step in shown),
            f"{difference:.5f}",
            f"{100 * spearman:.2f}",
        ]
        lines.append([*key, *numbers])
    steps = [f"loss {step + 1}" for step in shown]
    return table(["library", "precision", *steps, "mean difference", "Spearman"], lines)


def _launch(count: int, log: Path, folder: Path) -> list[Worker]:
    """Starts processes that train together, as torchrun does, in one folder."""
    if count == 1:
        return [Worker(log)]
    with create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    shared = {
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "SHARED_FOLDER": str(folder),
    }
    return [Worker(log, RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(count)]


def _make_steps(group: Sequence[Worker], count: int) -> Timing:
    """Lets the waiting processes of a run make `count` more steps."""
    for worker in group:
        worker.tell("steps", count=count)
    timings = [Timing(**worker.reply()) for worker in group]
    memory = max(timing.gpu_memory for timing in timings)
    return Timing(
        max(timing.wall for timing in timings), sum(timing.cpu for timing in timings), memory
    )


@contextmanager
def _busy_neighbour() -> Iterator[None]:
    """Another process that keeps one core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
