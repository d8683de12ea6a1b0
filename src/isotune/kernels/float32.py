"""Matrix products in float32 through oneDNN, where that is faster.

On CPUs that aren't Intel's, the library that torch uses for float32 (MKL) leaves half of the speed unused; oneDNN, also
a part of torch, doesn't. torch sends products there when it is told that bfloat16 would do as their precision, and
oneDNN computes in float32 all the same, unless the CPU has matrix units for bfloat16 (AMX). So speed and precision are
both measured, once a process, and oneDNN is taken where it is clearly faster, and exact. That goes for every product of
two matrices, forward and backward, in a model or in a loss.

The environment variable ISOTUNE_FLOAT32 settles it without a measurement of speed: `torch`, or `onednn` where it is
exact. Between the two, results differ in the last digits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

import torch
from torch import Generator, Tensor

from isotune.errors import unknown

VARIABLE = "ISOTUNE_FLOAT32"
CHOICES = ("auto", "torch", "onednn")
SIZE, ROUNDS = 256, 10  # of the matrices measured, a millisecond of work; the best of the rounds counts
# oneDNN is either about as fast or about twice: the limit is where a busy machine's noise doesn't reach.
FASTER = 1.5
# Sums of 256 products have a relative error of 4e-7 in float32, and of 2e-3 in bfloat16.
EXACT = 2e-6

# What torch calls the setting. It is the whole process's, so it is shared, and the last who needs it puts it back.
_setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
_lock = Lock()
_own: list[str] = []  # the setting before, once for each who needs ours


@contextmanager
def fast_float32() -> Iterator[None]:
    """Within it, float32 products are oneDNN's where that pays; any number may be open at a time, in any threads.

    Raises:
        InputError: ISOTUNE_FLOAT32 is none of its choices.
    """
    with _lock:
        own = _own[0] if _own else _setting.fp32_precision
        if pays():
            _setting.fp32_precision = "bf16"
        _own.append(own)
    try:
        yield
    finally:
        with _lock:
            own = _own.pop()
            if not _own:
                _setting.fp32_precision = own


@contextmanager
def small_products() -> Iterator[None]:
    """Within it, float32 products are torch's own again, for many small ones that are seldom of one shape.

    What oneDNN prepares for a new shape takes half a millisecond. A second thread that has it open may find its
    products to be oneDNN's, and the other way round.
    """
    with _lock:
        if _own:
            _setting.fp32_precision = _own[0]
    try:
        yield
    finally:
        with _lock:
            if _own and pays():
                _setting.fp32_precision = "bf16"


def pays() -> bool:
    """Whether float32 products are to be oneDNN's."""
    choice = os.environ.get(VARIABLE, "auto")
    if choice not in CHOICES:
        raise unknown(VARIABLE, choice, CHOICES)
    if choice == "torch" or not torch.backends.mkldnn.is_available():
        return False
    times, error = measured()
    return error < EXACT and (choice == "onednn" or times > FASTER)


@cache
def measured() -> tuple[float, float]:
    """How many times as fast oneDNN's products are as torch's own, and their relative error."""
    generator = Generator().manual_seed(0)
    x, weight = (torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64, device="cpu") for _ in range(2))
    own = _setting.fp32_precision
    seconds: dict[str, list[float]] = {own: [], "bf16": []}
    with torch.autocast("cpu", enabled=False):
        exact = _products(x, weight)
        try:
            for _ in range(ROUNDS):
                for setting, found in seconds.items():
                    _setting.fp32_precision = setting
                    start = time.perf_counter()
                    products = _products(x.float(), weight.float())
                    found.append(time.perf_counter() - start)
        finally:
            _setting.fp32_precision = own
    error = max(float((y - z).norm() / z.norm()) for y, z in zip(products, exact, strict=True))
    return min(seconds[own]) / min(seconds["bf16"]), error


def _products(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three of a linear layer: forward, and backward to its input and its weight."""
    y = x @ weight.T
    return y, y @ weight, y.T @ x
