"""A corpus as token ids: tokenised once, in one flat memory-mapped file.

All sentences of all rows stand one after another in the file, so the cost of a step does not depend
on the size of the corpus, and only one offset a sentence is held in memory. The file has no name
(`tempfile.TemporaryFile`): it is gone when the process ends, however it ends, and tokenising again
gives the same ids. Labels and scores are in memory. The texts are kept in a second file of the same
form, for a method that needs them.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.data.packed import Packed, shortest_first
from isotune.data.rows import Row, blocks, text_fields
from isotune.errors import InputError, unknown

CHUNK_ROWS = 10_000
"""Rows that are tokenised in one call.

They are enough to keep a multi-threaded tokenizer busy, and few enough to hold in memory.
"""

CHUNK_IDS = 2**22
"""Token ids that are counted at once."""


class Tokenized(NamedTuple):
    """Token ids of some rows."""

    columns: Sequence[Sequence[Sequence[int]]]
    """For each text of a row, or for all of them joined: the ids of every row."""

    firsts: Sequence[int] | None = None
    """For each row, the number of tokens of the first text, if a sequence has two texts."""


Tokenize = Callable[[Sequence[list[str]]], Tokenized]
"""Makes tokens of the texts of some rows; the argument has a list of texts for each text field."""


@dataclass(frozen=True)
class Fingerprint:
    """The size and the hash of a corpus; equal text in equal order has an equal fingerprint."""

    rows: int
    """Rows of the corpus."""

    sentences: int
    """Texts of all rows. A text that stands twice in a row counts once."""

    distinct: int
    """Different texts."""

    tokens: int
    """Token ids stored, special tokens included."""

    cut: int
    """Texts that have the maximum length, and so may have been cut."""

    sha256: str
    """The hash of the digests of the texts, in order."""


class _Content:
    """What the rows of a corpus hold besides tokens: digests of their texts, and targets."""

    def __init__(self, row_type: type[Row], classes: Sequence[str]) -> None:
        self._width = len(text_fields(row_type))
        self._has_targets = len(row_type._fields) > self._width
        self._classes = {label: number for number, label in enumerate(classes)}
        self._targets: array[Any] = array("q")
        if "score" in row_type._fields:
            self._targets = array("f")
        self._sha256 = hashlib.sha256()
        self._texts = array("Q")

    def add(self, row: Row) -> None:
        """Adds the next row."""
        digests = []
        for text in row[: self._width]:
            digests.append(hashlib.blake2b(str(text).encode(), digest_size=8).digest())
        self._sha256.update(b"".join(digests))
        # A method may put a text twice in a row; that is no repeat.
        for digest in dict.fromkeys(digests):
            self._texts.append(int.from_bytes(digest, "little"))
        if self._has_targets:
            self._sha256.update(str(row[self._width]).encode())
            self._targets.append(_target(row, self._classes, len(self._targets) + 1))

    def targets(self) -> Tensor | None:
        """[rows] the targets; None if rows have none."""
        if not self._targets:
            return None
        return torch.from_numpy(np.array(self._targets))

    def fingerprint(self, ids: _Flat, columns: int, max_length: int) -> Fingerprint:
        """The fingerprint of the rows, each of which has `columns` sequences of token ids."""
        return Fingerprint(
            rows=len(ids.lengths) // columns,
            sentences=len(self._texts),
            distinct=len(np.unique(np.frombuffer(self._texts, dtype=np.uint64))),
            tokens=int(ids.offsets[-1]),
            cut=int(np.sum(ids.lengths >= max_length)),
            sha256=self._sha256.hexdigest(),
        )


@dataclass(frozen=True, eq=False)
class TokenDataset:
    """The token ids of every text of every row. `pack` gives those of some rows.

    It is no `torch.utils.data.Dataset`: whole batches are read at once, never single rows.
    """

    columns: int
    """Sequences in a row."""

    max_length: int
    """The length in tokens to which texts were cut."""

    fingerprint: Fingerprint

    targets: Tensor | None
    """[rows] int64 numbers of classes, or float32 scores; None if rows have none."""

    _ids: _Flat
    """[rows * columns] sequences."""

    _firsts: NDArray[np.int32] | None
    """[rows] the tokens of each first text; None if a sequence has one text."""

    _texts: _Flat | None
    """[rows * text fields] sequences of UTF-8; None if texts were not kept."""

    def __len__(self) -> int:
        return self.fingerprint.rows

    @classmethod
    def build(
        cls,
        rows: Iterable[Row],
        row_type: type[Row],
        tokenize: Tokenize,
        max_length: int,
        folder: Path | None = None,
        *,
        classes: Sequence[str] = (),
        keep_text: bool = False,
    ) -> TokenDataset:
        """Tokenises a corpus.

        `tokenize` cuts texts to `max_length` tokens. The ids are stored on the disk of `folder`, or
        of the system's temporary folder. `classes` are the labels that labelled rows can have, in
        the order of their numbers. With `keep_text` the texts are kept too, for `sentences`.
        """
        content = _Content(row_type, classes)
        width = len(text_fields(row_type))
        columns = width
        firsts = array("i")
        with TemporaryFile(dir=folder) as id_file, TemporaryFile(dir=folder) as text_file:
            ids = _FlatWriter(id_file, np.int32)
            encoded_texts = _FlatWriter(text_file, np.uint8)
            for chunk in blocks(rows, CHUNK_ROWS, lambda row: row):
                for row in chunk:
                    content.add(row)
                texts = []
                for field in range(width):
                    texts.append([str(row[field]) for row in chunk])
                tokenized = tokenize(texts)
                columns = len(tokenized.columns)
                firsts.extend(tokenized.firsts or ())
                # The texts of the first row are written, then those of the second.
                sequences = chain.from_iterable(zip(*tokenized.columns, strict=True))
                ids.write(array("i", sequence).tobytes() for sequence in sequences)
                if keep_text:
                    texts_by_row = chain.from_iterable(zip(*texts, strict=True))
                    encoded_texts.write(map(str.encode, texts_by_row))
            stored_ids = ids.mapped()
            stored_texts = encoded_texts.mapped() if keep_text else None
        return cls(
            columns=columns,
            max_length=max_length,
            fingerprint=content.fingerprint(stored_ids, columns, max_length),
            targets=content.targets(),
            _ids=stored_ids,
            _firsts=np.frombuffer(firsts, dtype=np.int32) if firsts else None,
            _texts=stored_texts,
        )

    def pack(self, rows: NDArray[np.int64]) -> tuple[Packed, ...]:
        """One packed batch for each column of the rows with these numbers [N], in their order."""
        first = rows * self.columns  # [N]
        return tuple(self.pack_sequences(first + column) for column in range(self.columns))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[rows * columns] the tokens of each sequence; sequences of a row stand together."""
        return self._ids.lengths

    def is_constant(self) -> bool:
        """Whether there are several rows, and all have the same tokens."""
        lengths = self.lengths.reshape(len(self), -1)  # [rows, columns]
        if len(self) < 2 or (lengths != lengths[0]).any():
            return False
        rows = self._ids.values.reshape(len(self), -1)  # [rows, tokens of a row]
        rows_at_once = max(1, CHUNK_IDS // rows.shape[1])
        for start in range(0, len(rows), rows_at_once):
            if (rows[start : start + rows_at_once] != rows[0]).any():
                return False
        return True

    def token_counts(self) -> NDArray[np.int64]:
        """[highest id + 1] how often each token id occurs in all sequences."""
        ids = self._ids.values
        counts = np.zeros(int(ids.max()) + 1, np.int64)
        for start in range(0, len(ids), CHUNK_IDS):
            counts += np.bincount(ids[start : start + CHUNK_IDS], minlength=len(counts))
        return counts

    def sentences(self, rows: NDArray[np.int64]) -> tuple[list[str], ...]:
        """The texts of the rows with these numbers: a list for each text field.

        There are no lists if texts were not kept.
        """
        if self._texts is None:
            return ()
        content, offsets = self._texts
        width = (len(offsets) - 1) // len(self)
        columns = []
        for field in range(width):
            texts = []
            for place in rows * width + field:
                text = content[offsets[place] : offsets[place + 1]]
                texts.append(text.tobytes().decode())
            columns.append(texts)
        return tuple(columns)

    def pack_sequences(self, sequences: NDArray[np.int64]) -> Packed:
        """One packed batch of the sequences with these numbers [N].

        Sequences are counted over all rows and columns.
        """
        starts = self._ids.offsets[sequences]  # [N]
        lengths = self._ids.offsets[sequences + 1] - starts  # [N]
        offsets = np.cumsum(lengths) - lengths  # [N]
        positions = np.arange(lengths.sum()) - np.repeat(offsets, lengths)  # [T]
        ids = self._ids.values[np.repeat(starts, lengths) + positions]  # [T]
        types = None
        if self._firsts is not None:
            is_second = positions >= np.repeat(self._firsts[sequences], lengths)  # [T]
            types = torch.from_numpy(is_second.astype(np.int64))
        return shortest_first(
            torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(lengths), types
        )


def _target(row: Row, classes: Mapping[str, int], number: int) -> float:
    value = row[-1]
    if not isinstance(value, str):
        return value
    if not classes:
        raise InputError("rows with labels, for a method that has none")
    if value not in classes:
        raise InputError(f"row {number:,} ({row[0]!r:.60}): {unknown('label', value, classes)}")
    return classes[value]


class _Flat(NamedTuple):
    """Sequences one after another in a memory-mapped file."""

    values: NDArray[Any]
    """[T] the values of all sequences."""

    offsets: NDArray[np.int64]
    """[sequences + 1] each sequence's first place, and the end of the last."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[sequences] the number of values of each sequence."""
        return np.diff(self.offsets)


class _FlatWriter:
    """Writes sequences one after another into a file."""

    def __init__(self, file: IO[bytes], dtype: type[np.generic]) -> None:
        self._file = file
        self._dtype = np.dtype(dtype)
        self._lengths = array("i")

    def write(self, sequences: Iterable[bytes]) -> None:
        """Adds the bytes of some sequences."""
        for content in sequences:
            size = self._file.write(content)
            self._lengths.append(size // self._dtype.itemsize)

    def mapped(self) -> _Flat:
        """What was written. The file may be closed afterwards."""
        self._file.flush()
        offsets = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])
        shape = (int(offsets[-1]),)
        return _Flat(np.memmap(self._file, self._dtype, mode="r", shape=shape), offsets)


def steps_per_epoch(rows: int, batch_size: int, whole_epochs: bool = False) -> int:
    """The number of batches of an epoch."""
    if whole_epochs:
        # The steps are rounded up. A single row has nothing to be compared with, so it makes no
        # batch.
        return -(-(rows - 1) // batch_size)
    return rows // batch_size


class BatchSampler:
    """Which rows make which step: `sampler[step]` are their numbers.

    Every epoch has a new order, which depends on the seed and the step alone. The rows that do not
    fill a last batch are left out of that epoch. With `whole_epochs` they make a smaller batch, if
    there are two or more.
    """

    def __init__(self, rows: int, batch_size: int, seed: int, whole_epochs: bool = False) -> None:
        self.batch_size = batch_size
        self.steps_per_epoch = steps_per_epoch(rows, batch_size, whole_epochs)
        self._rows_of_epoch = lru_cache(1)(
            lambda epoch: np.random.default_rng([seed, epoch]).permutation(rows)
        )

    def __getitem__(self, step: int) -> np.ndarray:
        """[batch_size] row numbers of a step, or fewer; it is counted from 0 over all epochs."""
        epoch, number = divmod(step, self.steps_per_epoch)
        start = number * self.batch_size
        return self._rows_of_epoch(epoch)[start : start + self.batch_size]
