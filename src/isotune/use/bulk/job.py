"""Fills a folder of vectors, beside any number of other processes that do the same.

A process goes over the parts and encodes each part that it can claim. It ends when all parts are done, whoever encoded
them; the parts of a process that dies can be claimed again. A process with a share of the parts claims none, and ends
when its share is done. The same command, given again, goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from isotune.encoder import Precision
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import Advance
from isotune.errors import InputError
from isotune.files import put_into_place
from isotune.use.bulk.folder import VectorFolder
from isotune.use.bulk.part_file import encode_file
from isotune.use.bulk.parts import Part

logger = logging.getLogger(__name__)

PAUSE = 1.0  # seconds until the next look at the parts that other processes encode


class Outcome(NamedTuple):
    """What a folder holds when a job ends, and how many parts are left to the other shares."""

    parts: int
    rows: int
    dimension: int
    parts_encoded_here: int
    parts_left: int = 0


@dataclass(frozen=True)
class Job:
    """What to encode, and where to write the vectors."""

    encoder: str  # a name for `Encoder.load`
    parts: tuple[Part, ...]
    out: Path
    suffix: str  # of the files of vectors
    precision: Precision | None
    normalize: bool
    columns: Mapping[str, str]  # names the column of the text as {"sentence": column}, if it has no usual name
    shard: tuple[int, int] | None = None  # (i, n): the i-th of n shares, counted from 1, without locks; None for all

    def run(self, advance: Advance | None = None) -> Outcome:
        """Encodes parts until all are done, then writes the manifest; `advance` is told of progress.

        A part that can't be read is left out until the end. The manifest is not written then.

        Raises:
            InputError: the encoder can't be loaded, the folder is refused or can't be written, or a part can't be read.
        """
        encoder = Encoder.load(self.encoder, precision=self.precision)
        settings = {
            "encoder": self.encoder,  # for people; the fingerprint decides
            "fingerprint": encoder.fingerprint(),
            "dimension": encoder.dimension,
            "precision": self.precision or "as saved",
            "normalize": self.normalize,
            "columns": self.columns,
            "suffix": self.suffix,
        }
        folder = VectorFolder(self.out, settings, has_locks=self.shard is None)
        worker = _Worker(self, encoder, folder, advance)
        try:
            share, shares = self.shard or (1, 1)
            worker.encode(self.parts[share - 1 :: shares])
            if worker.problems:
                count, first = len(worker.problems), worker.problems[0]
                raise InputError(f"{first} ({count} of {len(self.parts)} parts can't be encoded; the others are done)")
            left = sum(not folder.is_done(part) for part in self.parts)
            records = folder.records()
            if not left:
                folder.write_manifest(records)
            rows = sum(record["rows"] for record in records)
            return Outcome(len(records), rows, encoder.dimension, worker.encoded, left)
        except OSError as error:
            raise InputError(f"{error.filename or self.out}: {error.strerror or error}") from error


class _Worker:
    """This process's part in a job.

    Attributes:
        encoded: the number of parts that this process has encoded.
        problems: why parts can't be encoded.
    """

    def __init__(self, job: Job, encoder: Encoder, folder: VectorFolder, advance: Advance | None) -> None:
        self.job, self.encoder, self.folder, self.advance = job, encoder, folder, advance
        self.encoded = 0
        self.problems: list[str] = []

    def encode(self, parts: Sequence[Part]) -> None:
        """Encodes parts until all of them are done, by this process or others, or can't be encoded."""
        waited = False
        while parts:
            held = [part for part in parts if not self._is_through(part)]
            if len(held) == len(parts):
                if not waited:
                    logger.warning("Waiting for other processes; parts left: %d.", len(held))
                waited = True
                time.sleep(PAUSE)
            parts = held

    def _is_through(self, part: Part) -> bool:
        """Encodes a part unless it is done; False if another process makes it now."""
        if self.folder.is_done(part):
            return True
        claim = self.folder.claim(part.name)
        if claim is None:
            return False
        with claim:
            if not self.folder.is_done(part):  # another process may have done it since
                self.folder.remove_manifest()
                try:
                    self._make(part)
                except InputError as error:
                    self.problems.append(str(error))
        return True

    def _make(self, part: Part) -> None:
        """Writes the vectors of a claimed part, and their record."""
        unfinished, target = self.folder.prepare(part), self.folder.target(part)
        if not target.exists():  # else a process died just before it wrote the record
            try:
                encode_file(
                    self.encoder,
                    part.source,
                    unfinished,
                    suffix=self.job.suffix,
                    columns=self.job.columns,
                    normalize=self.job.normalize,
                    advance=self.advance,
                )
                put_into_place(unfinished, target)
            finally:
                unfinished.unlink(missing_ok=True)
            self.encoded += 1
        self.folder.record(part)
