"""Exact search of an index: all its vectors are read into memory with the first query."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from isotune.search.exact import Vectors
from isotune.search.store import Store


class InMemory:
    """The vectors of a table of rows, which are read again when the rows have changed. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = Lock()
        self._loaded: tuple[int, NDArray[np.int64], Vectors] | None = None  # the version, row numbers and vectors

    def nearest(self, vector: NDArray[np.float32], k: int, where: str | None = None) -> list[int]:
        """The numbers of the k rows nearest to a vector [d] that fit a filter, the nearest first."""
        numbers, vectors = self._current()
        allowed = np.isin(numbers, self.store.matching(where)) if where else None
        _, places = vectors.nearest(vector[None], k, allowed)
        return [int(number) for number in numbers[places[0]]]

    def _current(self) -> tuple[NDArray[np.int64], Vectors]:
        """All row numbers [N] and vectors."""
        with self._lock:
            version = self.store.version
            if self._loaded is None or self._loaded[0] != version:
                self._loaded = None  # frees the old vectors before the new ones are read
                rows = len(self.store)
                numbers, vectors = np.empty(rows, np.int64), np.empty((rows, self.store.dimension), np.float32)
                done = 0
                for batch, part in self.store.vectors(rows):
                    numbers[done : done + len(batch)], vectors[done : done + len(batch)] = batch, part
                    done += len(batch)
                self._loaded = version, numbers[:done], Vectors(vectors[:done])
            return self._loaded[1:]
