"""The table of ways to train on several cores: threads and processes, on a quiet machine and beside a busy process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from socket import socket
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from machine import Noise
from rounds import Timing, in_turn, spread
from training import BATCH, DROPOUT, libraries, sentences
from worker import Worker


class Way(NamedTuple):
    """Processes that train together, and the threads of each."""

    processes: int
    threads: int


def ways(library: str, cores: int) -> list[Way]:
    """The ways of a library to use this number of cores, the single thread first."""
    together = [Way(cores, 1)] if library == "isotune" else []
    return [Way(1, 1), Way(1, cores), *together]


def by_ways(model: Path, steps: int, cores: int, rounds: int, noise: Noise, log: Path) -> str:
    """The table for one model, in Markdown, by the clock. A round is `steps` steps of 64 sentences, each twice."""
    texts = sentences(BATCH * (2 * steps * (rounds + 1) + 1))
    keys = [(*contender, way) for contender in libraries() for way in ways(contender[0], cores)]
    groups: dict[tuple[str, str, Way], list[Worker]] = {}
    folders = TemporaryDirectory()
    try:
        for number, (library, precision, way) in enumerate(keys):
            groups[library, precision, way] = launch(way.processes, log, Path(folders.name, str(number)))
            for worker in groups[library, precision, way]:
                worker.tell(
                    "train", contender=library, precision=precision, timed=True, model=str(model),
                    threads=way.threads, texts=texts, batch=BATCH, dropout=DROPOUT,
                )  # fmt: skip
        runs = {key: partial(make_steps, group, steps) for key, group in groups.items()}
        quiet = in_turn(runs, rounds, noise)
        with busy_neighbour():
            busy = in_turn(runs, rounds, Noise())
    finally:
        for group in groups.values():
            for worker in group:
                worker.close()
        folders.cleanup()
    lines = [
        "| library | precision | processes | threads of each | sentences a second | speed-up against one thread "
        "| spread | sentences a second beside a busy process | share of the quiet speed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for library, precision, way in keys:
        walls, beside = ([timing.wall for timing in timings[library, precision, way]] for timings in (quiet, busy))
        alone = median(timing.wall for timing in quiet[library, precision, Way(1, 1)])
        noise.spreads.append(spread(walls))
        speed, busy_speed = (BATCH * steps / median(seconds) for seconds in (walls, beside))
        lines.append(
            f"| {library} | {precision} | {way.processes} | {way.threads} | {speed:,.0f} | "
            f"**{alone / median(walls):.2f}** | {spread(walls):.0%} | {busy_speed:,.0f} | {busy_speed / speed:.0%} |"
        )
    return "\n".join(lines)


def launch(count: int, log: Path, folder: Path) -> list[Worker]:
    """Starts processes that train together, as torchrun does, in one folder."""
    if count == 1:
        return [Worker(log)]
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "SHARED_FOLDER": str(folder)}
    return [Worker(log, RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(count)]


def make_steps(group: list[Worker], count: int) -> Timing:
    """Lets the waiting processes of a run make `count` more steps."""
    for worker in group:
        worker.tell("steps", count=count)
    timings = [Timing(**worker.reply()) for worker in group]
    return Timing(max(timing.wall for timing in timings), sum(timing.cpu for timing in timings))


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """Another process that keeps one core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
