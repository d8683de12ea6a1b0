"""Whether this machine multiplies matrices faster in bfloat16 or in float32.

A CPU with instructions for bfloat16 (avx512_bf16, AMX) multiplies at least about twice as fast as in float32. A CPU
without them needs three to twenty times as long, because each product is made of float32 instructions. So the speed is
measured, once a process, and not read off the processor's name. `train` writes the answer into the recipe of a new run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import torch
from torch import Generator

from isotune.kernels.float32 import fast_float32

ROUNDS = 10  # of the measurement

# The measurement multiplies matrices of this size: a millisecond of work on a CPU, and enough to fill a GPU.
SIZES = {"cpu": 256, "cuda": 4096}
# Changes of type cost time, so bfloat16 pays only above this speed-up.
FASTER = 1.25


def faster_precision(device: str) -> str:
    """The number type in which a kind of device, "cpu" or "cuda", computes faster: "bfloat16" or "float32"."""
    return "bfloat16" if bfloat16_speed(device) > FASTER else "float32"


def compare_bfloat16(device: str) -> str:
    """The measured speed of bfloat16, in words."""
    speed = bfloat16_speed(device)
    comparison = f"{speed:.1f} times as fast as" if speed >= 1 else f"{1 / speed:.1f} times more slowly than"
    return f"this machine multiplies in bfloat16 {comparison} in float32"


def warn_of_bfloat16(device: str) -> str:
    """A warning for those who ask for bfloat16 where it is slower than float32; empty where it is not."""
    return f"bfloat16 will be slow: {compare_bfloat16(device)}" if bfloat16_speed(device) < 1 else ""


@cache
def bfloat16_speed(device: str) -> float:
    """Measures the speed of matrix products in bfloat16 over that of products in float32."""
    size = SIZES[device]
    generator = Generator().manual_seed(0)  # nothing is drawn from torch's own generator
    matrices = [torch.randn(size, size, generator=generator, device="cpu").to(device) for _ in range(2)]

    def multiply(dtype: torch.dtype) -> None:
        x, weight = (matrix.to(dtype) for matrix in matrices)
        y = x @ weight.T
        # The products of a linear layer, forward and backward to its input and its weight. The last waits for a GPU.
        _, product = y @ weight, y.T @ x
        product[0, 0].item()

    with fast_float32(), torch.autocast(device, enabled=False):
        in_float32, in_bfloat16 = least_seconds(lambda: multiply(torch.float32), lambda: multiply(torch.bfloat16))
    return in_float32 / in_bfloat16


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
