"""Matrix products in float32 through oneDNN, on AMD's CPUs.

torch computes float32 products with MKL, which leaves half of the speed of AMD's CPUs with AVX-512
unused; on an AMD with AVX2 alone (Zen 3) both are equally fast. torch uses oneDNN, for every
product of two matrices, when its precision setting allows bfloat16. oneDNN computes in float32 all
the same, unless the CPU has matrix units for bfloat16 (AMX). On Intel's CPUs, MKL is as fast or
faster.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

from isotune.kernels.threads import shared_setting

CPUS = Path("/proc/cpuinfo")

# The setting holds for the whole process.
_setting = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
_before: list[str] = []


@contextmanager
def fast_float32() -> Iterator[None]:
    """Uses oneDNN for float32 products where that pays, for a `with` block.

    Threads may open blocks at any time.
    """
    with shared_setting(_before, _get, _change, _put_back):
        yield


def _get() -> str:
    return str(_setting.fp32_precision)


def _change() -> None:
    if pays():
        _setting.fp32_precision = "bf16"


def _put_back(precision: str) -> None:
    _setting.fp32_precision = precision


@cache
def pays() -> bool:
    """Whether oneDNN is to compute float32 products on this machine."""
    # Windows has no such file, but names the maker.
    maker = CPUS.read_text("utf-8") if CPUS.exists() else platform.processor()
    amx = torch.cpu.get_capabilities().get("amx_bf16")
    return "AuthenticAMD" in maker and torch.backends.mkldnn.is_available() and not amx


def pays_packed() -> bool:
    """Whether oneDNN is to compute float32 products with packed weights.

    With AVX-512 encoding is 1.1 to 1.2 times as fast with them, even where oneDNN's other products
    are slow. With AVX2 alone encoding takes up to 1.3 times as long (AMD Zen 3).
    """
    return torch.backends.cpu.get_cpu_capability() == "AVX512"
