"""Matrix products in float32 through oneDNN, on AMD's CPUs.

torch computes float32 products with MKL, which leaves half of the speed of AMD's CPUs with AVX-512 unused; on an AMD
with AVX2 alone (Zen 3) both are equally fast. torch uses oneDNN, for every product of two matrices, when its precision
setting allows bfloat16. oneDNN computes in float32 all the same, unless the CPU has matrix units for bfloat16 (AMX). On
Intel's CPUs, MKL is as fast or faster.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

import torch

from isotune.kernels.threads import forkable

CPUS = Path("/proc/cpuinfo")

# torch's precision setting holds for the whole process. Open blocks share it, and the last to close puts it back.
_setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
_lock = forkable(Lock())
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


@cache
def pays() -> bool:
    """Whether oneDNN is to compute float32 products on this machine."""
    maker = CPUS.read_text() if CPUS.exists() else platform.processor()  # Windows has no such file, but names the maker
    amx = torch.cpu.get_capabilities().get("amx_bf16")
    return "AuthenticAMD" in maker and torch.backends.mkldnn.is_available() and not amx


def pays_packed() -> bool:
    """Whether oneDNN is to compute float32 products with packed weights.

    With AVX-512 encoding is 1.1 to 1.2 times as fast with them, even where oneDNN's other products are slow. With AVX2
    alone encoding takes up to 1.3 times as long (AMD Zen 3).
    """
    return torch.backends.cpu.get_cpu_capability() == "AVX512"
