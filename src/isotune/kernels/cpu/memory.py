"""The memory and threads of the process: settings for packed batches, made by `tune_process`.

- oneDNN, and torch's interface to it, each keep up to 1,024 prepared products, one for each shape.
  Packed batches have new shapes all the time, so the prepared products pile up between freed blocks
  of memory, which are then often too small for the next batch: the process grows.
- glibc returns large freed blocks to the system at once. The next operation gets them back cleared,
  page by page, which takes up to a tenth of the time.
- A thread of torch that has done its part of an operation waits for the others, awake, for up to a
  millisecond. Where other processes are busy, it takes from them, and from the thread it waits for,
  the time of a processor.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

# One large batch needs about this many prepared products; its layers share them, and the next batch
# has others. With 64, steps of 512 sentences take 1.05 times as long. With 256, encoding takes 1.03
# times as long, and training needs 0.3 GB more.
PREPARED = 128
PREPARED_VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")

# The rounds for which a thread waits awake; libgomp's own number is 300,000. With 300 a quiet
# machine is slower (docs/performance.md, "Beside busy processes").
SPINS = 1000
SPINS_VARIABLE = "GOMP_SPINCOUNT"
WAITING_VARIABLES = (SPINS_VARIABLE, "OMP_WAIT_POLICY")

# The numbers of glibc's options in malloc.h.
M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_THRESHOLD = -3

# The values are bytes.
MALLOC_OPTIONS = {
    # The free end of the heap is returned only if it is larger than this, the maximum.
    M_TRIM_THRESHOLD: 2**31 - 1,
    # This much is kept at the end. It is more than a thread's heap (64 MiB), so none is returned.
    M_TOP_PAD: 2**27,
    # Only larger blocks get memory of their own, which is returned when they are freed.
    M_MMAP_THRESHOLD: 2**28,
}
MALLOC_VARIABLES = (
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_MMAP_THRESHOLD_",
    "GLIBC_TUNABLES",
)


def tune_process() -> None:
    """Sets up this process for a CPU.

    It keeps freed memory and fewer prepared products, and lets other processes compute. Call it
    once, before torch is imported. The `isotune` command calls it, and a Python program may;
    nothing else in isotune changes settings of the whole process. Results are the same without it.
    Encoding becomes 1.00 to 1.15 times as fast, a training step 0.99 to 1.08 times; and memory
    stays within bounds over a long run (docs/performance.md). Environment variables that set the
    same override it.
    """
    for variable in PREPARED_VARIABLES:
        os.environ.setdefault(variable, str(PREPARED))
    if os.environ.keys().isdisjoint(WAITING_VARIABLES):
        os.environ[SPINS_VARIABLE] = str(SPINS)
    mallopt = _c_function("mallopt")
    if mallopt and os.environ.keys().isdisjoint(MALLOC_VARIABLES):
        for option, value in MALLOC_OPTIONS.items():
            mallopt(option, value)


def give_back() -> None:
    """Returns freed memory to the system, if the C library is glibc; takes some milliseconds."""
    trim = _c_function("malloc_trim")
    if trim:
        trim(0)


def free_memory(group: Path = Path("/sys/fs/cgroup")) -> int:
    """The bytes that this process may still take.

    It is what the machine has, or what the process's control group (v2) leaves, if that is less.
    """
    # Every command imports this module, so psutil is imported here.
    import psutil

    free = int(psutil.virtual_memory().available)
    # There may be no control group, or one that has no limit ("max") or not this statistic.
    with suppress(OSError, ValueError, IndexError):
        limit = int((group / "memory.max").read_text("utf-8"))
        current = int((group / "memory.current").read_text("utf-8"))
        *_, rest = (group / "memory.stat").read_text("utf-8").partition("inactive_file ")
        # Files that are let go when memory is asked for.
        cached = int(rest.split()[0])
        free = min(free, limit - current + cached)
    return free


def peak_memory() -> int:
    """The most memory that the process has held so far, in bytes; 0 on Windows."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # It is in bytes on macOS, and in KiB elsewhere.
    if sys.platform == "darwin":
        return peak
    return peak * 1024


@cache
def _c_function(name: str) -> ctypes._NamedFuncPointer | None:
    """A function of the C library; None if the library doesn't have it."""
    try:
        return getattr(ctypes.CDLL(None), name)
    # There is another C library, or this is Windows.
    except (AttributeError, TypeError):
        return None
