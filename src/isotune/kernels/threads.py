"""Threads that compute by themselves, beside each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock

import torch

_starting = Lock()


def compute_alone() -> None:
    """Prepares a new thread that computes by itself: without torch's other threads, and without denormal numbers."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def single_threads(name: str, count: int | None = None) -> ThreadPoolExecutor:
    """Starts threads in each of which torch computes with a single thread; as many as torch has, or `count`.

    The last call of `torch.set_num_threads`, in any thread, sets the number for threads that start later. So the number
    is put back before this returns, and of callers in several threads, one waits for the other.
    """
    with _starting:
        threads = torch.get_num_threads()
        count = count or threads
        pool, started = ThreadPoolExecutor(count, name, initializer=compute_alone), Barrier(count + 1)
        for _ in range(count):
            pool.submit(started.wait)
        started.wait()
        torch.set_num_threads(threads)
    return pool
