"""The vectors that teachers give to texts: computed once, and then read from a file.

The files for the texts of a stage are in the cache folder of the stage's source. So another run on
the same text, and a resumed run, read them. A log line says how fast a teacher encodes, because
encoding may take longer than training. The files for the texts of tasks are in the user's cache
folder, where runs on any text find them.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isotune.console import SAID_EVERY
from isotune.data.cache import cache_folder
from isotune.data.kept_vectors import map_vectors, write_vectors
from isotune.encoder.encoder import Encoder
from isotune.encoder.fingerprint import short_hash
from isotune.errors import InputError, counted
from isotune.training.recorder import Recorder, RunContext


@dataclass(frozen=True)
class KeptTeaching:
    """Encodes texts by a teacher, and keeps the vectors."""

    run: RunContext

    folder: Path | None
    """Where the files are; None for rows from Python, whose vectors are not kept."""

    def encode(self, teacher: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
        """The teacher's vectors [n, d] of n texts, of length 1.

        Raises:
            InputError: the file of the vectors is damaged, or can't be written.
        """
        parts = _encoded(teacher, texts, self.run.recorder)
        if self.folder is None:
            return np.concatenate(list(parts))
        path = self.folder / _name(teacher.fingerprint(), texts)
        rows = counted(len(texts), "text")
        with self.run.workers.rank_zero_first():
            if path.exists():
                self.run.recorder.say(f"teacher: the vectors of {rows} are read from {path}")
            else:
                write_vectors(path, (len(texts), teacher.dimension), parts)
                self.run.recorder.say(f"teacher: the vectors are kept in {path}")
        return map_vectors(path)


class KeptTeacher:
    """A teacher that encodes the texts of tasks, and keeps the vectors for other runs with it.

    The vectors have length 1.
    """

    def __init__(self, encoder: Encoder, recorder: Recorder) -> None:
        """Takes the teacher, and what hears of vectors that can't be kept."""
        self.encoder = encoder
        self.folder = cache_folder("")
        self._recorder = recorder
        self._fingerprint = encoder.fingerprint()

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """The vectors [n, d] of n texts."""
        return self._kept("", texts)

    def encode_query(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """The vectors [n, d] of n questions."""
        return self._kept("query", texts)

    def encode_document(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """The vectors [n, d] of n documents."""
        return self._kept("document", texts)

    def keeps(self, role: str, texts: Sequence[str]) -> bool:
        """Whether the vectors are kept of different texts that get the prompt of a role."""
        return os.path.exists(self._path(role, texts))

    def _path(self, role: str, texts: Sequence[str]) -> Path:
        return self.folder / _name(f"{self._fingerprint} {role}", texts)

    def _kept(self, role: str, texts: Sequence[str]) -> NDArray[np.float32]:
        path = self._path(role, texts)
        if self.keeps(role, texts):
            # A damaged file of another run does not end this one.
            with suppress(InputError):
                return map_vectors(path)
        vectors = self.encoder.prompted(role).encode(texts, normalize=True)
        try:
            write_vectors(path, (len(vectors), vectors.shape[1]), [vectors])
        except InputError as error:
            # The scores need no file.
            self._recorder.warn(0, f"{error}; the vectors of the teacher are not kept")
        return vectors


def _name(encoder: str, texts: Sequence[str]) -> str:
    """The file of the vectors of texts in this order; `encoder` says what decides the vectors."""
    digest = blake2b(digest_size=16)
    for text in texts:
        digest.update(blake2b(text.encode(), digest_size=16).digest())
    return f"vectors-{short_hash([encoder, digest.hexdigest()])}.npy"


def _encoded(
    teacher: Encoder, texts: Sequence[str], recorder: Recorder
) -> Iterator[NDArray[np.float32]]:
    """The teacher's vectors of the texts, part by part; tells of the progress."""
    rows = counted(len(texts), "text")
    recorder.say(f"teacher: encoding {rows}, which the run does once")
    recorder.start("teacher", 0, len(texts))
    progress = _Progress(recorder, len(texts))
    for _, vectors in teacher.encode_parts(texts, normalize=True, advance=progress.advance):
        yield vectors
    recorder.say(f"teacher: {rows} encoded, {progress.rate:,.0f} a second")


class _Progress:
    """Tells of the texts that a teacher has encoded."""

    def __init__(self, recorder: Recorder, total: int) -> None:
        self._recorder = recorder
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._said = self._began

    @property
    def rate(self) -> float:
        """Texts encoded in a second."""
        return self._done / max(time.monotonic() - self._began, 1e-9)

    def advance(self, count: int) -> None:
        """Counts the texts that were encoded since the last call."""
        self._done += count
        self._recorder.advance(count)
        now = time.monotonic()
        if now < self._said + SAID_EVERY:
            return
        self._said = now
        left = (self._total - self._done) / self.rate
        self._recorder.say(
            f"teacher: {self._done:,} of {self._total:,} texts, {self.rate:,.0f} a second; "
            f"{left:,.0f} seconds are left"
        )
