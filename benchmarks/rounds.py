"""Measures several contenders in turn, so that changes of the machine's load affect all of them."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeVar

from machine import Clock, Noise


class Timing(NamedTuple):
    """The seconds that a run took, by the clock and of the processor; and a GPU's memory.

    The memory is the most gigabytes that were in use.
    """

    wall: float
    cpu: float
    gpu_memory: float = 0.0


Key = TypeVar("Key")


def in_turn(
    runs: Mapping[Key, Callable[[], Any]], rounds: int, noise: Noise
) -> dict[Key, list[Any]]:
    """The results of each contender, one per round.

    A result has `cpu`, the seconds of processors outside this process.

    A first round warms up and does not count. Every round starts with another contender.
    """
    results: dict[Key, list[Any]] = {key: [] for key in runs}
    for key in runs:
        runs[key]()
    keys = list(runs)
    for number in range(rounds):
        first = number % len(keys)
        for key in keys[first:] + keys[:first]:
            clock, own = Clock(), time.process_time()
            result = runs[key]()
            wall, busy, steal = clock.stop()
            noise.add(wall, busy - result.cpu - (time.process_time() - own), steal)
            results[key].append(result)
    return results


def seconds(timings: list[Timing], threads: int) -> list[float]:
    """Processor seconds if there is one thread; else wall-clock seconds.

    Other processes change the processor seconds of one thread little.
    """
    return [timing.cpu if threads == 1 else timing.wall for timing in timings]


def speedup(base: list[float], other: list[float]) -> float:
    """How many times as fast as the base the other is: the median of the rounds' ratios."""
    return median(b / o for b, o in zip(base, other, strict=True))


def spread(values: list[float]) -> float:
    """(largest - smallest) / median."""
    return (max(values) - min(values)) / median(values)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    return "\n".join(
        f"| {' | '.join(map(str, row))} |" for row in (columns, ["---"] * len(columns), *rows)
    )
