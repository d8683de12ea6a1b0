"""Measures ways to compute the same, so that a process can choose the fastest way on its machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# The fastest round counts. Other programs on the machine can slow down some rounds, but hardly all of them.
ROUNDS = 10


def least_seconds(*ways: Callable[[], object]) -> list[float]:
    """Runs the ways in turn, on one thread, and returns the least seconds that each of them takes."""
    seconds: list[list[float]] = [[] for _ in ways]
    with _single_thread():
        for _ in range(ROUNDS):
            for way, times in zip(ways, seconds, strict=True):
                start = time.perf_counter()
                way()
                times.append(time.perf_counter() - start)
    return [min(times) for times in seconds]


@contextmanager
def _single_thread() -> Iterator[None]:
    """On a busy machine, threads wait for each other longer than they compute; this differs between the ways."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
