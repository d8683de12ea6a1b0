"""The rows that a run was trained on, as hashes: the run folder's `trained-rows.npz`.

A row is two texts that stand together, in any order, or a text with a label. Sentences without
labels are no rows: they do not hold what a task asks for. Two texts are equal if their letters and
digits are. The file has no texts. It holds `MOST` hashes at most: of more rows those with the
smallest hashes, which are a random sample of all rows.
"""

from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotune.data.rows import R, Sentence, copy_key, text_fields
from isotune.data.sources import ScoredPairs
from isotune.files import read_arrays, write_arrays

TRAINED_ROWS = "trained-rows.npz"

MOST = 500_000
"""Hashes in a file; they take 4 MB."""

Hashes = NDArray[np.uint64]


class TrainedRows:
    """Collects the hashes of rows, while the rows pass."""

    def __init__(self) -> None:
        self._hashes = array("Q")

    def watch(self, rows: Iterable[R], row_type: type[R]) -> Iterator[R]:
        """Passes the rows of a corpus on; all are of one row type."""
        if row_type is Sentence:
            yield from rows
            return
        width = len(text_fields(row_type))
        for row in rows:
            texts = [str(text) for text in row[:width]]
            if width == 1:
                self._hashes.append(_hash(texts[0], texts[0]))
            for first, second in combinations(texts, 2):
                self._hashes.append(_hash(first, second))
            yield row

    def save(self, path: Path) -> None:
        """Adds the hashes to a file; makes none where no row has passed."""
        if not self._hashes:
            return
        hashes = np.array(self._hashes, np.uint64)
        if path.exists():
            hashes = np.concatenate([hashes, read_hashes(path)])
        # They are in order, the smallest first.
        write_arrays(path, {"hashes": np.unique(hashes)[:MOST]})


class Found(NamedTuple):
    """How many rows of a task were trained on."""

    rows: int
    """Their number, which is an estimate if the file has a sample of the trained rows."""

    of: int
    """The rows of the task."""

    is_estimate: bool


def read_hashes(path: Path) -> Hashes:
    """The hashes in a file, in order."""
    hashes: Hashes = read_arrays(path)["hashes"]
    return hashes


def find_trained(hashes: Hashes, pairs: ScoredPairs) -> Found:
    """Counts the pairs among the rows with these hashes; a text alone is a pair with itself."""
    both = zip(pairs.sentence1, pairs.sentence2, strict=True)
    asked = np.array([_hash(first, second) for first, second in both], np.uint64)
    found = int(np.isin(asked, hashes).sum())
    is_sample = len(hashes) == MOST
    if is_sample:
        # A larger hash is in no sample.
        known = int((asked <= hashes[-1]).sum())
        found = round(found * len(asked) / max(1, known))
    return Found(found, len(asked), is_sample)


def _hash(first: str, second: str) -> int:
    keys = sorted([copy_key(first), copy_key(second)])
    return int.from_bytes(blake2b(b"\0".join(keys), digest_size=8).digest(), "little")
