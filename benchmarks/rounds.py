"""Measures several contenders in turn, so that changes of the machine's load affect all of them."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple, TypeVar

from machine import Clock, Noise

Key = TypeVar("Key")


class Timing(NamedTuple):
    """The seconds that a run took: wall-clock time and processor time; and the most gigabytes of a GPU's memory."""

    wall: float
    cpu: float
    gpu_memory: float = 0.0


def in_turn(runs: Mapping[Key, Callable[[], Timing]], rounds: int, noise: Noise) -> dict[Key, list[Timing]]:
    """The timings of each contender, one per round.

    A first round warms up and does not count. Every round starts with another contender.
    """
    timings: dict[Key, list[Timing]] = {key: [] for key in runs}
    for key in runs:
        runs[key]()
    keys = list(runs)
    for number in range(rounds):
        first = number % len(keys)
        for key in keys[first:] + keys[:first]:
            clock = Clock()
            timing = runs[key]()
            wall, busy, steal = clock.stop()
            noise.add(wall, busy - timing.cpu, steal)
            timings[key].append(timing)
    return timings


def seconds(timings: list[Timing], threads: int) -> list[float]:
    """Processor seconds if there is one thread, because other processes change them little; else wall-clock seconds."""
    return [timing.cpu if threads == 1 else timing.wall for timing in timings]


def speedup(base: list[float], other: list[float]) -> float:
    """How many times as fast as the base the other is: the median of the rounds' ratios."""
    return median(b / o for b, o in zip(base, other, strict=True))


def spread(values: list[float]) -> float:
    """(largest - smallest) / median."""
    return (max(values) - min(values)) / median(values)
