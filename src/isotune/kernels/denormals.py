"""Denormal numbers count as 0 in the threads that compute, because some processors take long over them.

The numbers of float32 below 1.2e-38 have fewer digits, and an operation on them takes an Intel processor more than a
hundred cycles. They arise in attention: where it is sharp, the softmax has weights down to 1e-45, and the gradient of a
token is a sum of products of the weights that other tokens give it, over all layers. Counting them as 0 changes results
in the last digits only. torch has this as a setting of each thread, and a new thread begins with that of its parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

DENORMAL = 1e-40
GRAIN = 2**15  # torch shares an operation on at least this many numbers for each thread


@contextmanager
def no_denormals() -> Iterator[None]:
    """Counts denormal numbers as 0 for a `with` block, in this thread and in threads that it starts meanwhile."""
    torch.ones(GRAIN * torch.get_num_threads())  # starts torch's own threads, which outlive the block
    before = not torch.tensor(DENORMAL).mul(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
