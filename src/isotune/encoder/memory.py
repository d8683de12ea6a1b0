"""What would go on growing as more and more batches pass, held within bounds.

Packed batches have new shapes all the time, and oneDNN, and what calls it in torch, keep each product that they have
once prepared, 1,024 of them each. The C library keeps what is freed, in pieces between these, and soon finds none that
is large enough.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

# Products that are kept. With 256 a training step takes as long as with 1,024; with 64, up to 1.4 times as long.
PREPARED = 256
VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def limit_prepared() -> None:
    """Limits the products that are kept, unless the environment says how many; works before the first product."""
    for variable in VARIABLES:
        os.environ.setdefault(variable, str(PREPARED))


def give_back() -> None:
    """Gives what is freed back to the system, if the C library is glibc; takes some milliseconds."""
    if trim := _malloc_trim():
        trim(0)


@cache
def _malloc_trim() -> ctypes._NamedFuncPointer | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, TypeError):  # another C library, or Windows
        return None
