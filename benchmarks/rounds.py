"""Several things measured in turn, so that whatever happens to the machine happens to all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple, TypeVar

from machine import Clock, Noise

Key = TypeVar("Key")


class Took(NamedTuple):
    """Seconds of a run: on the wall, and of processors."""

    wall: float
    cpu: float


def in_turn(runs: Mapping[Key, Callable[[], Took]], rounds: int, noise: Noise) -> dict[Key, list[Took]]:
    """What each run took in each round, after one that isn't counted; the order turns from round to round."""
    took: dict[Key, list[Took]] = {key: [] for key in runs}
    for key in runs:
        runs[key]()
    keys = list(runs)
    for number in range(rounds):
        turn = number % len(keys)
        for key in keys[turn:] + keys[:turn]:
            clock = Clock()
            found = runs[key]()
            wall, busy, steal = clock.stop()
            noise.add(wall, busy - found.cpu, steal)
            took[key].append(found)
    return took


def seconds(took: list[Took], threads: int) -> list[float]:
    """Of a thread alone its processor's time counts, which others on the machine don't change; else the wall's."""
    return [one.cpu if threads == 1 else one.wall for one in took]


def ratio(base: list[float], others: list[float]) -> float:
    """How many times as fast as the base, round by round; the median."""
    return median(b / o for b, o in zip(base, others, strict=True))


def spread(values: list[float]) -> float:
    """Of the rounds, over their median."""
    return (max(values) - min(values)) / median(values)
