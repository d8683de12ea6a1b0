"""Exact search of an index: all its vectors are read into memory with the first query."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from isotune.use.search.exact import Vectors
from isotune.use.search.snapshot import Snapshot


class InMemory:
    """The vectors of a snapshot, which are read again when another snapshot is searched. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: tuple[Snapshot, NDArray[np.int64], Vectors] | None = None  # with the rows' numbers and vectors

    def nearest(self, snapshot: Snapshot, vector: NDArray[np.float32], k: int, where: str | None = None) -> list[int]:
        """The numbers of the k rows nearest to a vector [d] that fit a filter, the nearest first."""
        numbers, vectors = self._read(snapshot)
        allowed = np.isin(numbers, snapshot.matching(where)) if where else None
        _, places = vectors.nearest(vector[None], k, allowed)
        return [int(number) for number in numbers[places[0]]]

    def _read(self, snapshot: Snapshot) -> tuple[NDArray[np.int64], Vectors]:
        """The numbers [N] and vectors of all rows."""
        with self._lock:
            if self._loaded is None or self._loaded[0] is not snapshot:
                self._loaded = None  # frees the old vectors before the new ones are read
                rows = len(snapshot)
                numbers, vectors = np.empty(rows, np.int64), np.empty((rows, snapshot.dimension), np.float32)
                done = 0
                for batch, part in snapshot.vectors():
                    numbers[done : done + len(batch)], vectors[done : done + len(batch)] = batch, part
                    done += len(batch)
                self._loaded = snapshot, numbers, Vectors(vectors)
            return self._loaded[1:]
