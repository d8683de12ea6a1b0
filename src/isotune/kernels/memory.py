"""The memory of batches that come and go: kept as long as it is used again, and held within bounds.

Packed batches have new shapes all the time, and oneDNN, and what calls it in torch, keep each product that they have
once prepared, 1,024 of them each. These lie between the pieces of memory that are freed, which soon are too small for
what is wanted next.

The C library gives large pieces back to the system when they are freed, and gets them again, cleared page by page, for
the next operation. That can take a tenth of the time, or nothing, by where the pieces happen to lie.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

# Products that are kept: those of one large batch, which its layers share. The next batch has others. With 64, steps of
# 512 sentences take 1.05 times as long; with 256, encoding takes 1.03 times as long, and training 0.3 GB more.
PREPARED = 128
PREPARED_VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")

# glibc's options, as malloc.h numbers them, and what they are set to, in bytes.
KEEP = {
    -1: 2**31 - 1,  # M_TRIM_THRESHOLD: what the end of the heap has free before it is given back; this is the most
    -2: 2**27,  # M_TOP_PAD: what stays there; a thread's heap comes in pieces of 64 MiB, of which none goes then
    -3: 2**28,  # M_MMAP_THRESHOLD: what is as large as this is got by itself, and given back when it is freed
}
KEEP_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def limit_prepared() -> None:
    """Limits the products that are kept, unless the environment says how many; works before the first product."""
    for variable in PREPARED_VARIABLES:
        os.environ.setdefault(variable, str(PREPARED))


def keep_freed() -> None:
    """Has the C library keep what is freed until `give_back`, if it is glibc, unless the environment sets it up."""
    if (mallopt := _from_c_library("mallopt")) and os.environ.keys().isdisjoint(KEEP_VARIABLES):
        for option, value in KEEP.items():
            mallopt(option, value)


def give_back() -> None:
    """Gives what is freed back to the system, if the C library is glibc; takes some milliseconds."""
    if trim := _from_c_library("malloc_trim"):
        trim(0)


@cache
def _from_c_library(name: str) -> ctypes._NamedFuncPointer | None:
    try:
        function: ctypes._NamedFuncPointer = getattr(ctypes.CDLL(None), name)
    except (AttributeError, TypeError):  # another C library, or Windows
        return None
    return function
