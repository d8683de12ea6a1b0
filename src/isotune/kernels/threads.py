"""Threads that compute by themselves, side by side, without denormal numbers; and forks.

The numbers of float32 below 1.2e-38 have fewer digits, and an operation on them takes an Intel
processor more than a hundred cycles. They arise in attention: where it is sharp, the softmax has
weights down to 1e-45, and the gradient of a token is a sum of products of the weights that other
tokens give it, over all layers. Counting them as 0 changes results in the last digits only. torch
has this as a setting of each thread, and a new thread begins with that of its parent.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Barrier, Lock, RLock
from typing import TypeVar

import torch

from isotune.kernels.device import default_device

L = TypeVar("L", Lock, RLock)
T = TypeVar("T")

DENORMAL = 1e-40

GRAIN = 2**15
"""torch shares an operation on at least this many numbers for each thread."""


def forkable(lock: L) -> L:
    """The same lock.

    In a forked process it is open, because the thread that held it may not be there.
    """
    # Windows has no forks.
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


PROCESS = forkable(RLock())
"""Who holds it has what belongs to the whole process.

That is torch's default generators, and transformers' verbosity.
"""

_starting = forkable(Lock())
_settings = forkable(Lock())
if hasattr(os, "register_at_fork"):
    # A forked process has none of torch's threads. An operation that is shared among them would
    # wait forever.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


@contextmanager
def shared_setting(
    before: list[T],
    get: Callable[[], T],
    change: Callable[[], object],
    put_back: Callable[[T], object],
) -> Iterator[None]:
    """Changes a setting for a `with` block.

    Threads may open blocks at any time, and the last to close puts the setting back. `before` is a
    stack with an entry for each open block: each entry is the original value of the setting.
    """
    with _settings:
        if before:
            before.append(before[0])
        else:
            before.append(get())
        change()
    try:
        yield
    finally:
        with _settings:
            original = before.pop()
            if not before:
                put_back(original)


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Has torch's default generators begin at a seed for a `with` block, for this thread alone.

    Then it puts them back.
    """
    count = 0
    if default_device() != "cpu":
        count = torch.accelerator.device_count()
    gpus = range(count)
    with PROCESS, torch.random.fork_rng(gpus):
        torch.manual_seed(seed)
        yield


@contextmanager
def no_denormals() -> Iterator[None]:
    """Counts denormal numbers as 0 for a `with` block, in this thread and those that it starts."""
    # This starts torch's own threads, which outlive the block.
    torch.ones(GRAIN * torch.get_num_threads())
    before = not torch.tensor(DENORMAL).mul(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def compute_alone(threads: int = 1) -> None:
    """Prepares a new thread that computes by itself, without denormal numbers.

    It computes with `threads` of torch's threads.
    """
    # The first call in a thread sets its number, and would undo the next line.
    torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)


@contextmanager
def restored_threads() -> Iterator[int]:
    """Gives torch's number of threads for a `with` block, in which others may set theirs.

    Threads that start later keep the number. The last call of `torch.set_num_threads`, in any
    thread, sets the number for threads that start later. So the number is put back at the end, and
    of callers in several threads, one waits for the other.
    """
    with _starting:
        threads = torch.get_num_threads()
        yield threads
        torch.set_num_threads(threads)


def single_threads(name: str, count: int | None = None) -> ThreadPoolExecutor:
    """Starts threads in each of which torch computes with a single thread.

    They are as many as torch has, or `count`.
    """
    with restored_threads() as threads:
        count = count or threads
        pool = ThreadPoolExecutor(count, name, initializer=compute_alone)
        started = Barrier(count + 1)
        for _ in range(count):
            pool.submit(started.wait)
        started.wait()
    return pool


@cache
def kept_threads() -> ThreadPoolExecutor:
    """The threads of `single_threads`, which live as long as the process."""
    return single_threads("kept")


if hasattr(os, "register_at_fork"):
    # A forked process has none of these threads.
    os.register_at_fork(after_in_child=kept_threads.cache_clear)
