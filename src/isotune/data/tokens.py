"""A corpus as token ids: tokenised once, flat, memory-mapped.

All sentences of all rows lie one after another in one file, so what a step costs doesn't depend on the corpus, and
what is resident is one offset a sentence. The file is nameless (`tempfile.TemporaryFile`): it is gone with the
process, however that ends, and tokenising again gives the same ids. Labels and scores lie beside them in memory; the
texts themselves are kept, the same way as the ids, only for who asks for them.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.data.packed import Packed, shortest_first
from isotune.data.rows import Row, texts
from isotune.errors import InputError, unknown

# Rows that are tokenised in one call: enough to keep a multi-threaded tokenizer busy, few enough to forget.
CHUNK_ROWS = 10_000


class Tokenized(NamedTuple):
    """Token ids of some rows.

    Attributes:
        columns: for each text of a row, the ids of every row's; one where a row's texts are one sequence.
        firsts: how many of a sequence's tokens belong to its first text, where it has two.
    """

    columns: Sequence[Sequence[Sequence[int]]]
    firsts: Sequence[int] | None = None


Tokenize = Callable[[Sequence[list[str]]], Tokenized]
"""From the texts of some rows, column by column, to their tokens."""


@dataclass(frozen=True)
class Fingerprint:
    """What a corpus holds; the same text in the same order gives the same fingerprint.

    Attributes:
        rows: rows of the corpus.
        sentences: texts of all rows; what stands twice in a row counts once.
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
        columns: sequences in a row.
        max_length: tokens that texts were cut to.
        targets: [rows] int64 class numbers or float32 scores; None for rows that have neither.
        fingerprint: what was stored.
    """

    def __init__(
        self,
        ids: NDArray[np.int32],
        offsets: NDArray[np.int64],
        columns: int,
        max_length: int,
        fingerprint: Fingerprint,
        *,
        firsts: NDArray[np.int32] | None = None,
        targets: Tensor | None = None,
        text: _Texts | None = None,
    ) -> None:
        self._ids = ids  # [tokens]
        self._offsets = offsets  # [rows * columns + 1]
        self._firsts = firsts  # [rows]
        self._text = text
        self.columns = columns
        self.max_length = max_length
        self.targets = targets
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
        *,
        classes: Sequence[str] = (),
        keep_text: bool = False,
    ) -> TokenStore:
        """Tokenises a corpus.

        Args:
            rows: what `data.read` streams.
            row: their kind.
            tokenize: the texts' token ids, at most `max_length` each.
            max_length: where `tokenize` cuts.
            folder: whose disk holds the ids; the system's temporary folder if None.
            classes: the labels that labelled rows can have, in the order of their numbers.
            keep_text: keep the texts too, for `sentences`.

        Raises:
            InputError: a row has a label that is not among the classes.
        """
        fields = len(texts(row))
        columns = fields
        numbers = {label: number for number, label in enumerate(classes)}
        lengths, firsts = array("i"), array("i")
        targets: array[Any] = array("q" if "label" in row._fields else "f")
        digests = array("Q")
        sha256 = hashlib.sha256()
        kept = _TextWriter(folder) if keep_text else None
        with TemporaryFile(dir=folder) as file:
            rows = iter(rows)
            while chunk := list(islice(rows, CHUNK_ROWS)):
                for one in chunk:
                    own = [hashlib.blake2b(str(text).encode(), digest_size=8).digest() for text in one[:fields]]
                    sha256.update(b"".join(own))
                    # A method may put a text twice in a row; that is no repeat.
                    digests.extend(int.from_bytes(digest, "little") for digest in dict.fromkeys(own))
                    if kept:
                        kept.write(map(str, one[:fields]))
                    if len(one) > fields:
                        sha256.update(str(one[fields]).encode())
                        targets.append(_target(one, numbers, len(targets) + 1))
                tokenized = tokenize([[str(one[field]) for one in chunk] for field in range(fields)])
                columns = len(tokenized.columns)
                ids = [tokens for row_tokens in zip(*tokenized.columns, strict=True) for tokens in row_tokens]
                firsts.extend(tokenized.firsts or ())
                lengths.extend(map(len, ids))
                file.write(np.concatenate([np.asarray(one, dtype=np.int32) for one in ids]).tobytes())
            file.flush()
            offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            stored = np.memmap(file, dtype=np.int32, mode="r", shape=(int(offsets[-1]),))
        fingerprint = Fingerprint(
            rows=len(lengths) // columns,
            sentences=len(digests),
            distinct=len(np.unique(np.frombuffer(digests, dtype=np.uint64))),
            tokens=int(offsets[-1]),
            cut=int(np.sum(np.frombuffer(lengths, dtype=np.int32) >= max_length)),
            sha256=sha256.hexdigest(),
        )
        return cls(
            stored,
            offsets,
            columns,
            max_length,
            fingerprint,
            firsts=np.frombuffer(firsts, dtype=np.int32) if firsts else None,
            targets=torch.frombuffer(targets, dtype=_DTYPES[targets.typecode]) if targets else None,
            text=kept.finish(fields) if kept else None,
        )

    def pack(self, rows: NDArray[np.int64]) -> tuple[Packed, ...]:
        """One packed batch for each column of these rows.

        Args:
            rows: [N] row numbers; sentence i of every batch belongs to `rows[i]`.
        """
        return tuple(self.pack_sequences(rows * self.columns + column) for column in range(self.columns))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[rows * columns] tokens of each sequence; those of a row stand together."""
        lengths: NDArray[np.int64] = np.diff(self._offsets)
        return lengths

    def sentences(self, rows: NDArray[np.int64]) -> tuple[list[str], ...]:
        """The texts of these rows, a list for each text of a row; nothing where they were not kept."""
        return self._text.read(rows) if self._text else ()

    def pack_sequences(self, sequences: NDArray[np.int64]) -> Packed:
        """One packed batch of the sequences with these numbers [N], counted over all rows and columns."""
        starts = self._offsets[sequences]
        lengths = self._offsets[sequences + 1] - starts
        offsets = np.cumsum(lengths) - lengths
        positions = np.arange(lengths.sum()) - np.repeat(offsets, lengths)  # [T]
        ids = torch.from_numpy(self._ids[np.repeat(starts, lengths) + positions].astype(np.int64))
        types = None
        if self._firsts is not None:
            types = torch.from_numpy((positions >= np.repeat(self._firsts[sequences], lengths)).astype(np.int64))
        return shortest_first(ids, torch.from_numpy(lengths), types)


_DTYPES = {"q": torch.int64, "f": torch.float32}


def _target(row: Row, numbers: dict[str, int], place: int) -> float:
    """The number of a row's label, or its score; `place` counts rows from 1."""
    value = row[-1]
    if not isinstance(value, str):
        return value
    if not numbers:
        raise InputError("rows with labels, for a method that has none")
    if value not in numbers:
        raise InputError(f"row {place:,} ({row[0]!r:.60}): {unknown('label', value, numbers)}")
    return numbers[value]


class _Texts:
    """Texts in a file, memory-mapped."""

    def __init__(self, content: NDArray[np.uint8], offsets: NDArray[np.int64], fields: int) -> None:
        self._content = content  # [bytes]
        self._offsets = offsets  # [rows * fields + 1]
        self._fields = fields

    def read(self, rows: NDArray[np.int64]) -> tuple[list[str], ...]:
        """The texts of rows, field by field."""
        return tuple([self._one(row * self._fields + field) for row in rows] for field in range(self._fields))

    def _one(self, place: int) -> str:
        return self._content[self._offsets[place] : self._offsets[place + 1]].tobytes().decode()


class _TextWriter:
    """Writes texts one after another into a nameless file."""

    def __init__(self, folder: Path | None) -> None:
        self._file: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115 (closed by finish)
        self._lengths = array("i")

    def write(self, row: Iterable[str]) -> None:
        self._lengths.extend(self._file.write(text.encode()) for text in row)

    def finish(self, fields: int) -> _Texts:
        """Closes the file; its content stays mapped."""
        with self._file:
            self._file.flush()
            offsets = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])
            content = np.memmap(self._file, dtype=np.uint8, mode="r", shape=(int(offsets[-1]),))
        return _Texts(content, offsets, fields)


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
