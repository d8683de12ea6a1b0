"""A corpus as token ids: tokenised once, in one flat memory-mapped file.

All sentences of all rows stand one after another in the file, so the cost of a step does not depend on the size of the
corpus, and only one offset a sentence is held in memory. The file has no name (`tempfile.TemporaryFile`): it is gone
when the process ends, however it ends, and tokenising again gives the same ids. Labels and scores are in memory. The
texts are kept in a second file of the same form, for a method that needs them.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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

# Rows that are tokenised in one call: enough to keep a multi-threaded tokenizer busy, few enough to hold in memory.
CHUNK_ROWS = 10_000
CHUNK_IDS = 2**22  # token ids that are counted at once


class Tokenized(NamedTuple):
    """Token ids of some rows."""

    # for each text of a row, or for all of them joined: the ids of every row
    columns: Sequence[Sequence[Sequence[int]]]
    firsts: Sequence[int] | None = (
        None  # for each row, the tokens of the first text, if a sequence has two texts
    )


Tokenize = Callable[[Sequence[list[str]]], Tokenized]
"""Makes tokens from the texts of some rows; the argument has a list of texts for each text field."""


@dataclass(frozen=True)
class Fingerprint:
    """The size and the hash of a corpus; the same text in the same order has the same fingerprint."""

    rows: int  # rows of the corpus
    sentences: int  # texts of all rows; a text that stands twice in a row counts once
    distinct: int  # different texts
    tokens: int  # token ids stored, special tokens included
    cut: int  # texts that have the maximum length, and so may have been cut
    sha256: str  # of the digests of the texts, in order


@dataclass(frozen=True, eq=False)
class TokenStore:
    """The token ids of every text of every row."""

    columns: int  # sequences in a row
    max_length: int  # the length in tokens to which texts were cut
    fingerprint: Fingerprint
    targets: (
        Tensor | None
    )  # [rows] int64 numbers of classes, or float32 scores; None if rows have none
    _ids: _Flat  # [rows * columns] sequences
    _firsts: NDArray[np.int32] | None  # [rows]
    _texts: _Flat | None  # [rows * text fields] sequences of UTF-8

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
    ) -> TokenStore:
        """Tokenises a corpus.

        `tokenize` cuts texts to `max_length` tokens. The ids are stored on the disk of `folder`, or of the system's
        temporary folder. `classes` are the labels that labelled rows can have, in the order of their numbers. With
        `keep_text` the texts are kept too, for `sentences`.
        """
        width = columns = len(text_fields(row_type))
        has_targets = len(row_type._fields) > width
        numbers = {label: number for number, label in enumerate(classes)}
        targets: array[Any] = array("f" if "score" in row_type._fields else "q")
        sha256, of_texts, firsts = hashlib.sha256(), array("Q"), array("i")
        with TemporaryFile(dir=folder) as id_file, TemporaryFile(dir=folder) as text_file:
            ids, kept = _FlatWriter(id_file, np.int32), _FlatWriter(text_file, np.uint8)
            for chunk in blocks(rows, CHUNK_ROWS, lambda row: row):
                for row in chunk:
                    digests = [
                        hashlib.blake2b(str(text).encode(), digest_size=8).digest()
                        for text in row[:width]
                    ]
                    sha256.update(b"".join(digests))
                    # A method may put a text twice in a row; that is no repeat.
                    of_texts.extend(
                        int.from_bytes(digest, "little") for digest in dict.fromkeys(digests)
                    )
                    if has_targets:
                        sha256.update(str(row[width]).encode())
                        targets.append(_target(row, numbers, len(targets) + 1))
                texts = [[str(row[field]) for row in chunk] for field in range(width)]
                tokenized = tokenize(texts)
                columns = len(tokenized.columns)
                firsts.extend(tokenized.firsts or ())
                # The texts of the first row, then those of the second.
                ids.write(
                    array("i", text).tobytes()
                    for row in zip(*tokenized.columns, strict=True)
                    for text in row
                )
                if keep_text:
                    kept.write(text.encode() for row in zip(*texts, strict=True) for text in row)
            stored = ids.mapped()
            return cls(
                columns=columns,
                max_length=max_length,
                fingerprint=Fingerprint(
                    rows=len(stored.lengths) // columns,
                    sentences=len(of_texts),
                    distinct=len(np.unique(np.frombuffer(of_texts, dtype=np.uint64))),
                    tokens=int(stored.offsets[-1]),
                    cut=int(np.sum(stored.lengths >= max_length)),
                    sha256=sha256.hexdigest(),
                ),
                targets=torch.from_numpy(np.array(targets)) if targets else None,
                _ids=stored,
                _firsts=np.frombuffer(firsts, dtype=np.int32) if firsts else None,
                _texts=kept.mapped() if keep_text else None,
            )

    def pack(self, rows: NDArray[np.int64]) -> tuple[Packed, ...]:
        """One packed batch for each column of the rows with these numbers [N], in their order."""
        return tuple(
            self.pack_sequences(rows * self.columns + column) for column in range(self.columns)
        )

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[rows * columns] the number of tokens of each sequence; sequences of a row stand together."""
        return self._ids.lengths

    def is_constant(self) -> bool:
        """Whether there are several rows, and all have the same tokens."""
        lengths = self.lengths.reshape(len(self), -1)
        if len(self) < 2 or (lengths != lengths[0]).any():
            return False
        rows = self._ids.values.reshape(len(self), -1)
        at_once = max(1, CHUNK_IDS // rows.shape[1])
        return all(
            (rows[start : start + at_once] == rows[0]).all()
            for start in range(0, len(rows), at_once)
        )

    def token_counts(self) -> NDArray[np.int64]:
        """[highest id + 1] how often each token id occurs in all sequences."""
        counts = np.zeros(int(self._ids.values.max()) + 1, np.int64)
        for start in range(0, len(self._ids.values), CHUNK_IDS):
            counts += np.bincount(
                self._ids.values[start : start + CHUNK_IDS], minlength=len(counts)
            )
        return counts

    def sentences(self, rows: NDArray[np.int64]) -> tuple[list[str], ...]:
        """The texts of the rows with these numbers: a list for each text field, or nothing if texts were not kept."""
        if self._texts is None:
            return ()
        content, offsets = self._texts
        width = (len(offsets) - 1) // len(self)
        places = [rows * width + field for field in range(width)]
        return tuple(
            [content[offsets[i] : offsets[i + 1]].tobytes().decode() for i in column]
            for column in places
        )

    def pack_sequences(self, sequences: NDArray[np.int64]) -> Packed:
        """One packed batch of the sequences with these numbers [N], counted over all rows and columns."""
        starts = self._ids.offsets[sequences]  # [N]
        lengths = self._ids.offsets[sequences + 1] - starts  # [N]
        offsets = np.cumsum(lengths) - lengths  # [N]
        positions = np.arange(lengths.sum()) - np.repeat(offsets, lengths)  # [T]
        ids = torch.from_numpy(
            self._ids.values[np.repeat(starts, lengths) + positions].astype(np.int64)
        )  # [T]
        types = None
        if self._firsts is not None:
            types = torch.from_numpy(
                (positions >= np.repeat(self._firsts[sequences], lengths)).astype(np.int64)
            )
        return shortest_first(ids, torch.from_numpy(lengths), types)


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

    values: NDArray[Any]  # [T], of all sequences
    offsets: NDArray[
        np.int64
    ]  # [sequences + 1], each sequence's first place, and the end of the last

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[sequences] the number of values of each sequence."""
        return np.diff(self.offsets)


class _FlatWriter:
    def __init__(self, file: IO[bytes], dtype: type[np.generic]) -> None:
        self._file, self._dtype = file, np.dtype(dtype)
        self._lengths = array("i")

    def write(self, sequences: Iterable[bytes]) -> None:
        self._lengths.extend(
            self._file.write(content) // self._dtype.itemsize for content in sequences
        )

    def mapped(self) -> _Flat:
        self._file.flush()
        offsets = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])
        return _Flat(
            np.memmap(self._file, self._dtype, mode="r", shape=(int(offsets[-1]),)), offsets
        )


class BatchOrder:
    """Which rows make which step: a new order in every epoch, which depends on the seed and the step alone.

    The rows that do not fill a last batch are left out of that epoch. With `whole_epochs` they make a smaller batch, if
    there are two or more.
    """

    def __init__(self, rows: int, batch_size: int, seed: int, whole_epochs: bool = False) -> None:
        self.batch_size = batch_size
        # A single row has nothing to be compared with, so it makes no batch.
        self.steps_per_epoch = -(-(rows - 1) // batch_size) if whole_epochs else rows // batch_size
        self._rows_of_epoch = lru_cache(1)(
            lambda epoch: np.random.default_rng([seed, epoch]).permutation(rows)
        )

    def __getitem__(self, step: int) -> np.ndarray:
        """[batch_size] row numbers of a step, or fewer; it is counted from 0 over all epochs."""
        epoch, place = divmod(step, self.steps_per_epoch)
        return self._rows_of_epoch(epoch)[place * self.batch_size : (place + 1) * self.batch_size]
