"""A corpus as token ids: tokenised once, flat, memory-mapped.

All sentences of all rows lie one after another in one file, so what a step costs doesn't depend on the corpus, and
what is resident is one offset a sentence. The file is nameless (`tempfile.TemporaryFile`): it is gone with the
process, however that ends, and tokenising again gives the same ids.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import torch

from isotune.data.packed import Packed, shortest_first
from isotune.data.rows import Row, texts

Tokenize = Callable[[list[str]], list[list[int]]]

# Rows that are tokenised in one call: enough to keep a multi-threaded tokenizer busy, few enough to forget.
CHUNK_ROWS = 10_000


@dataclass(frozen=True)
class Fingerprint:
    """What a corpus holds; the same text in the same order gives the same fingerprint.

    Attributes:
        rows: rows of the corpus.
        sentences: texts of all rows.
        distinct: different texts among them.
        tokens: token ids stored, special ones included.
        cut: texts that reached the maximum length, and so may have been cut.
        sha256: of the texts' own digests, in order.
    """

    rows: int
    sentences: int
    distinct: int
    tokens: int
    cut: int
    sha256: str


class TokenStore:
    """The token ids of every text of every row.

    Attributes:
        columns: texts in a row.
        fingerprint: what was stored.
    """

    def __init__(self, ids: np.ndarray, offsets: np.ndarray, columns: int, fingerprint: Fingerprint) -> None:
        self._ids = ids  # [tokens]
        self._offsets = offsets  # [rows * columns + 1]
        self.columns = columns
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        """Rows."""
        return self.fingerprint.rows

    @classmethod
    def build(
        cls,
        rows: Iterable[Row],
        row: type[Row],
        tokenize: Tokenize,
        max_length: int,
        folder: Path | None = None,
    ) -> TokenStore:
        """Tokenises a corpus.

        Args:
            rows: what `data.read` streams.
            row: their kind.
            tokenize: texts -> token ids, at most `max_length` each.
            max_length: where `tokenize` cuts.
            folder: whose disk holds the ids; the system's temporary folder if None.
        """
        columns = len(texts(row))
        lengths = array("i")
        digests = array("Q")
        sha256 = hashlib.sha256()
        with TemporaryFile(dir=folder) as file:
            rows = iter(rows)
            while chunk := list(islice(rows, CHUNK_ROWS)):
                sentences = [str(text) for one in chunk for text in one[:columns]]
                for text in sentences:
                    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
                    sha256.update(digest)
                    digests.append(int.from_bytes(digest, "little"))
                ids = tokenize(sentences)
                lengths.extend(map(len, ids))
                file.write(np.concatenate([np.asarray(one, dtype=np.int32) for one in ids]).tobytes())
            file.flush()
            offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            stored = np.memmap(file, dtype=np.int32, mode="r", shape=(int(offsets[-1]),))
        fingerprint = Fingerprint(
            rows=len(lengths) // columns,
            sentences=len(lengths),
            distinct=len(np.unique(np.frombuffer(digests, dtype=np.uint64))),
            tokens=int(offsets[-1]),
            cut=int(np.sum(np.frombuffer(lengths, dtype=np.int32) >= max_length)),
            sha256=sha256.hexdigest(),
        )
        return cls(stored, offsets, columns, fingerprint)

    def pack(self, rows: np.ndarray) -> tuple[Packed, ...]:
        """One packed batch for each text column of these rows.

        Args:
            rows: [N] row numbers; sentence i of every batch belongs to `rows[i]`.
        """
        return tuple(self._pack(rows * self.columns + column) for column in range(self.columns))

    def _pack(self, sentences: np.ndarray) -> Packed:
        starts = self._offsets[sentences]
        lengths = self._offsets[sentences + 1] - starts
        places = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        ids = torch.from_numpy(self._ids[places].astype(np.int64))
        return shortest_first(ids, torch.from_numpy(lengths))


class BatchOrder:
    """Which rows make which step: every epoch in a new order, a function of the seed and the step alone.

    The rows that don't fill a last batch sit that epoch out.
    """

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        self.rows = rows
        self.batch_size = batch_size
        self.seed = seed
        self.steps_per_epoch = rows // batch_size
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def __getitem__(self, step: int) -> np.ndarray:
        """[batch_size] row numbers of a step, counted from 0 over all epochs."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng([self.seed, epoch]).permutation(self.rows)
            self._epoch = epoch
        return self._order[place * self.batch_size : (place + 1) * self.batch_size]
