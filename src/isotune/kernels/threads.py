"""Threads that compute by themselves, beside each other, and without denormal numbers; and processes that are forked.

The numbers of float32 below 1.2e-38 have fewer digits, and an operation on them takes an Intel processor more than a
hundred cycles. They arise in attention: where it is sharp, the softmax has weights down to 1e-45, and the gradient of a
token is a sum of products of the weights that other tokens give it, over all layers. Counting them as 0 changes results
in the last digits only. torch has this as a setting of each thread, and a new thread begins with that of its parent.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Lock, RLock
from typing import TypeVar

import torch

from isotune.kernels.device import default_device

L = TypeVar("L", Lock, RLock)
T = TypeVar("T")

DENORMAL = 1e-40
GRAIN = 2**15  # torch shares an operation on at least this many numbers for each thread


def forkable(lock: L) -> L:
    """The same lock; in a forked process it is open, because the thread that held it may not be there."""
    if hasattr(os, "register_at_fork"):  # Windows has no forks
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


# Who holds this has what belongs to the whole process: torch's default generators, and transformers' verbosity.
PROCESS = forkable(RLock())
_starting, _settings = forkable(Lock()), forkable(Lock())
if hasattr(os, "register_at_fork"):
    # A forked process has none of torch's threads, and an operation that is shared among them would wait forever.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


@contextmanager
def sharing(
    before: list[T],
    get: Callable[[], T],
    change: Callable[[], object],
    put_back: Callable[[T], object],
) -> Iterator[None]:
    """Changes a setting for a `with` block; threads may open blocks at any time, and the last to close puts it back.

    `before` has what the setting was before the first open block, once for each open block.
    """
    with _settings:
        before.append(before[0] if before else get())
        change()
    try:
        yield
    finally:
        with _settings:
            was = before.pop()
            if not before:
                put_back(was)


@contextmanager
def drawing(seed: int = 0) -> Iterator[None]:
    """Has torch's default generators begin at a seed, for this thread alone and a `with` block; then puts them back."""
    gpus = () if default_device() == "cpu" else range(torch.accelerator.device_count())
    with PROCESS, torch.random.fork_rng(gpus):
        torch.manual_seed(seed)
        yield


@contextmanager
def no_denormals() -> Iterator[None]:
    """Counts denormal numbers as 0 for a `with` block, in this thread and in threads that it starts meanwhile."""
    torch.ones(
        GRAIN * torch.get_num_threads()
    )  # starts torch's own threads, which outlive the block
    before = not torch.tensor(DENORMAL).mul(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def compute_alone(threads: int = 1) -> None:
    """Prepares a new thread that computes by itself, or with some threads of torch, and without denormal numbers."""
    torch.get_num_threads()  # the first call in a thread sets its number, and would undo the next line
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)


@contextmanager
def keeping_threads() -> Iterator[int]:
    """Gives torch's number of threads; others may set theirs in a `with` block, and threads that start later keep it.

    The last call of `torch.set_num_threads`, in any thread, sets the number for threads that start later. So the number
    is put back at the end, and of callers in several threads, one waits for the other.
    """
    with _starting:
        threads = torch.get_num_threads()
        yield threads
        torch.set_num_threads(threads)


def single_threads(name: str, count: int | None = None) -> ThreadPoolExecutor:
    """Starts threads in each of which torch computes with a single thread; as many as torch has, or `count`."""
    with keeping_threads() as threads:
        count = count or threads
        pool, started = (
            ThreadPoolExecutor(count, name, initializer=compute_alone),
            Barrier(count + 1),
        )
        for _ in range(count):
            pool.submit(started.wait)
        started.wait()
    return pool
