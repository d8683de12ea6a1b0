"""Seeds that follow from a run's seed."""

from __future__ import annotations

import numpy as np


def derive_seed(seed: int, purpose: str, *path: int) -> int:
    """A seed of its own for every purpose and path of numbers."""
    tag = int.from_bytes(purpose.encode(), "little")
    return int(np.random.SeedSequence([seed, tag], spawn_key=path).generate_state(1, np.uint64)[0] >> 1)
