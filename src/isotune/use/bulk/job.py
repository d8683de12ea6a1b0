"""Fills a folder of vectors, beside any number of other processes that do the same.

A process goes over the parts and encodes each part that it can claim. It ends when all parts are done, whoever encoded
them; the parts of a process that dies can be claimed again. The same command, given again, goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from isotune.encoder import Precision
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import Advance
from isotune.errors import InputError
from isotune.use.bulk.folder import VectorFolder
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

    encoder: str  # a name for `Encoder.load`
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
        folder = VectorFolder(self.out, settings)
        try:
            encoded = self._encode(encoder, folder, advance)
            records = folder.finish()
        except OSError as error:
            raise InputError(f"{error.filename or self.out}: {error.strerror or error}") from error
        return Outcome(len(records), sum(record["rows"] for record in records), encoder.dimension, encoded)

    def _encode(self, encoder: Encoder, folder: VectorFolder, advance: Advance | None) -> int:
        """Encodes parts until all of them are done, by this process or others; returns how many this process did."""
        encoded, problems, waited = 0, [], False
        options: dict[str, Any] = {"suffix": self.suffix, "columns": self.columns, "normalize": self.normalize}
        parts = list(self.parts)
        while parts:
            held = []  # by other processes
            for part in parts:
                if folder.is_done(part):
                    continue
                if not (claim := folder.claim(part.name)):
                    held.append(part)
                    continue
                with claim:
                    if folder.is_done(part):  # another process has done it since
                        continue
                    try:
                        write = partial(encode_file, encoder, part.source, advance=advance, **options)
                        encoded += folder.make(part, write)
                    except InputError as error:
                        problems.append(str(error))
            if len(held) == len(parts):
                if not waited:
                    logger.warning("Waiting for other processes; parts left: %d.", len(held))
                waited = True
                time.sleep(PAUSE)
            parts = held
        if problems:
            count = len(problems)
            raise InputError(
                f"{problems[0]} ({count} of {len(self.parts)} parts can't be encoded; the others are done)"
            )
        return encoded
