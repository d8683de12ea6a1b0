"""Fills a folder of vectors, beside any number of other processes that do the same.

A process goes over the parts and encodes each part that it can claim. It ends when all parts are done, whoever encoded
them; if another process dies, this one takes its part over. The same command, given again, goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from isotune.encoder import Precision
from isotune.encoder.load import load_encoder
from isotune.encoder.stream import Advance, StreamEncoder
from isotune.errors import InputError
from isotune.files import put_into_place
from isotune.use.bulk.claims import Claim, Claims
from isotune.use.bulk.folder import Settings, VectorFolder
from isotune.use.bulk.part_file import encode_file
from isotune.use.bulk.parts import Part

logger = logging.getLogger(__name__)

PAUSE = 1.0  # seconds until the next look at the parts that other processes encode


class Outcome(NamedTuple):
    """What a folder holds when a job ends."""

    parts: int
    rows: int
    dimension: int
    parts_encoded_here: int


@dataclass(frozen=True)
class Job:
    """What to encode, and where to write the vectors."""

    encoder: str  # a name for `load_encoder`
    parts: tuple[Part, ...]
    out: Path
    suffix: str  # of the files of vectors
    precision: Precision | None
    normalize: bool
    columns: Mapping[str, str]  # names the column of the text as {"sentence": column}, if it has no usual name

    def run(self, advance: Advance | None = None) -> Outcome:
        """Encodes parts until all are done, then writes the manifest; `advance` is told of progress.

        A part that can't be read is left out until the end. The manifest is not written then.

        Raises:
            InputError: the encoder can't be loaded, the folder is refused or can't be written, or a part can't be read.
        """
        encoder = load_encoder(self.encoder, self.precision)
        folder = VectorFolder(self.out, self._settings(encoder))
        worker = _Worker(self, encoder, folder, advance)
        try:
            worker.encode_parts()
            if worker.problems:
                count, first = len(worker.problems), worker.problems[0]
                raise InputError(f"{first} ({count} of {len(self.parts)} parts can't be encoded; the others are done)")
            return Outcome(*folder.write_manifest(), encoder.dimension, worker.encoded)
        except OSError as error:
            raise InputError(f"{error.filename or self.out}: {error.strerror or error}") from error

    def _settings(self, encoder: StreamEncoder) -> Settings:
        return Settings(
            encoder=self.encoder,
            fingerprint=encoder.fingerprint(),
            dimension=encoder.dimension,
            precision=self.precision or "as saved",
            normalize=self.normalize,
            columns=self.columns,
            suffix=self.suffix,
        )


class _Worker:
    """This process's share of a job.

    Attributes:
        encoded: the number of parts that this process has encoded.
        problems: why parts can't be encoded.
    """

    def __init__(self, job: Job, encoder: StreamEncoder, folder: VectorFolder, advance: Advance | None) -> None:
        self.job, self.encoder, self.folder, self.advance = job, encoder, folder, advance
        self.claims = Claims()
        self.encoded = 0
        self.problems: list[str] = []

    def encode_parts(self) -> None:
        """Encodes parts until all are done, by this process or others, or can't be encoded."""
        missing = list(self.job.parts)
        waited = False
        while missing:
            held = [part for part in missing if not self.folder.is_done(part) and not self._encode(part)]
            if len(held) == len(missing):
                if not waited:
                    logger.warning("Waiting for other processes; parts left: %d.", len(held))
                waited = True
                time.sleep(PAUSE)
            missing = held

    def _encode(self, part: Part) -> bool:
        """Encodes a part, unless another process holds it; returns whether this process is through with the part."""
        self.folder.make_room(part)
        claim = self.claims.take(self.folder.state(part))
        if claim is None:
            return False
        with claim.kept():
            self.folder.remove_manifest()
            try:
                return self._write(part, claim)
            except InputError as error:
                self.problems.append(str(error))
                return True

    def _write(self, part: Part, claim: Claim) -> bool:
        """Writes the vectors and the record of a claimed part; False if the claim has been taken over meanwhile."""
        job, target = self.job, self.folder.target(part)
        for key in claim.former_keys:
            self.folder.unfinished(part, key).unlink(missing_ok=True)
        if not target.exists():  # else the former holder died just before writing the record
            unfinished = self.folder.unfinished(part, claim.key)
            try:
                encode_file(
                    self.encoder,
                    part.source,
                    unfinished,
                    suffix=job.suffix,
                    columns=job.columns,
                    normalize=job.normalize,
                    advance=self.advance,
                )
                if not claim.is_held():
                    return False
                put_into_place(unfinished, target)
            finally:
                unfinished.unlink(missing_ok=True)
            self.encoded += 1
        claim.finish(self.folder.new_record(part))
        return True
