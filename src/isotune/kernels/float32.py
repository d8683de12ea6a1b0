"""Matrix products in float32 through oneDNN, where that is faster.

torch computes float32 products with MKL, which leaves half of the speed of CPUs that aren't Intel's unused. torch uses
oneDNN when its precision setting allows bfloat16. oneDNN computes in float32 all the same, unless the CPU has matrix
units for bfloat16 (AMX). So speed and precision are both measured, once a process, and oneDNN is used where it is
clearly faster and exact, for every product of two matrices, forward and backward.

The environment variable ISOTUNE_FLOAT32 decides without a measurement of speed: `torch`, or `onednn` (still only where
it is exact). Between the two, results differ in the last digits. So a run keeps to the choice of its start (`chosen`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

import torch
from torch import Generator, Tensor

from isotune.errors import unknown

VARIABLE = "ISOTUNE_FLOAT32"
CHOICES = ("auto", "torch", "onednn")
ROUNDS = 10  # of a measurement
SIZE = 256  # of the matrices that the measurement multiplies, about a millisecond of work
# oneDNN is either about as fast or about twice as fast. The noise of a busy machine doesn't reach this limit.
FASTER = 1.5
# Sums of 256 products have a relative error of 4e-7 in float32, and of 2e-3 in bfloat16.
EXACT = 2e-6

# torch's precision setting holds for the whole process. Open blocks share it, and the last to close puts it back.
_setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
_lock = Lock()
_chosen: list[str] = []  # what the open blocks of `chosen` name
_before: list[str] = []  # the setting before the first open block, once for each open block


@contextmanager
def fast_float32() -> Iterator[None]:
    """Uses oneDNN for float32 products where that pays, for a `with` block; threads may open blocks at any time."""
    with _lock:
        before = _before[0] if _before else _setting.fp32_precision
        if pays():
            _setting.fp32_precision = "bf16"
        _before.append(before)
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before:
                _setting.fp32_precision = before


@contextmanager
def chosen(choice: str) -> Iterator[None]:
    """Has all threads make this choice for a `with` block, in place of the environment variable's."""
    _chosen.append(choice)
    try:
        yield
    finally:
        _chosen.pop()


def choice_here() -> str:
    """The choice of this machine, "torch" or "onednn"."""
    return "onednn" if pays() else "torch"


def pays() -> bool:
    """Whether oneDNN is to compute float32 products on this machine."""
    choice = _choice()
    if choice not in CHOICES:
        raise unknown(VARIABLE, choice, CHOICES)
    if choice == "torch" or not torch.backends.mkldnn.is_available():
        return False
    speedup, error = measured()
    return error < EXACT and (choice == "onednn" or speedup > FASTER)


def pays_packed() -> bool:
    """Whether oneDNN is to compute float32 products with packed weights.

    On a CPU with AVX-512 these are faster even where oneDNN's other products are not: by 1.1 to 1.2 times.
    """
    return pays() or (_choice() != "torch" and torch.backends.cpu.get_cpu_capability() == "AVX512")


def _choice() -> str:
    return _chosen[-1] if _chosen else os.environ.get(VARIABLE, "auto")


@cache
def measured() -> tuple[float, float]:
    """Measures oneDNN's products: their speed over that of torch's own, and their relative error."""
    generator = Generator().manual_seed(0)
    x, weight = (torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64, device="cpu") for _ in range(2))
    before = _setting.fp32_precision

    def multiply(setting: str) -> tuple[Tensor, ...]:
        _setting.fp32_precision = setting
        return linear_products(x.float(), weight.float())

    try:
        with torch.autocast("cpu", enabled=False):
            exact = linear_products(x, weight)
            by_torch, by_onednn = least_seconds(lambda: multiply(before), lambda: multiply("bf16"))
            products = multiply("bf16")
    finally:
        _setting.fp32_precision = before
    error = max(float((y - z).norm() / z.norm()) for y, z in zip(products, exact, strict=True))
    return by_torch / by_onednn, error


def linear_products(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three products of a linear layer: forward, and backward to its input and its weight."""
    y = x @ weight.T
    return y, y @ weight, y.T @ x


def least_seconds(*ways: Callable[[], object]) -> list[float]:
    """Runs ways to compute the same in turn, and returns the least seconds of each.

    The fastest round counts, since other programs on the machine slow down some rounds, but hardly all of them. On a
    busy machine threads wait for each other longer than they compute, so one thread computes.
    """
    seconds: list[list[float]] = [[] for _ in ways]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(ROUNDS):
            for way, times in zip(ways, seconds, strict=True):
                start = time.perf_counter()
                way()
                times.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return [min(times) for times in seconds]
