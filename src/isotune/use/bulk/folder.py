"""A folder of vectors: what all of its vectors have in common, which parts are done, and the manifest.

    vectors/part-07.parquet                      a file of vectors, whole or not there
    vectors/_manifest.json                       when all parts are done: what the folder holds
    vectors/.encoding/settings.json              what all vectors have in common
    vectors/.encoding/part-07.parquet.lock       is locked while a process makes the part
    vectors/.encoding/part-07.parquet.KEY.part   an unfinished file
    vectors/.encoding/part-07.parquet.json       the record of a part that is done

Readers of a folder of parquet files skip names that begin with a dot or an underscore. The system frees the lock of a
process that dies. A lock saves work, and protects no file: two processes that make the same part each write a file of
their own, and put it into place whole.
"""

from __future__ import annotations

import errno
import json
import logging
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from glob import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from isotune.errors import InputError
from isotune.files import file_sha256, make_folder, put_into_place, read_json, write_text
from isotune.use.bulk.parts import Part
from isotune.use.bulk.vector_file import count_rows

logger = logging.getLogger(__name__)

MANIFEST = "_manifest.json"
STATE = ".encoding"
SETTINGS = "settings.json"
NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}  # of a file system that has none


class VectorFolder:
    """A folder of vectors, which several processes may fill at the same time."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Opens a folder, or makes a new one.

        `settings` are what decides the vectors, as JSON has it: the encoder's name and fingerprint, and options.

        Raises:
            InputError: the folder has vectors of another encoder or of other settings, or files of another origin; or
                it can't be written.
        """
        self.path, self._state, self._has_locks = path, path / STATE, True
        try:
            if path.is_dir() and not self._state.is_dir() and any(path.iterdir()):
                raise InputError(f"{path}: it has files that isotune encode did not make; name a new folder")
            make_folder(self._state)
            with self.claim(SETTINGS, wait=True) or nullcontext():
                if not (self._state / SETTINGS).exists():
                    write_text(self._state / SETTINGS, _json(settings))
            theirs = read_json(self._state / SETTINGS)
        except OSError as error:
            raise InputError(f"{path}: it can't be written ({error.strerror or error}); name another folder") from error
        if theirs.get("fingerprint") != settings["fingerprint"]:
            raise InputError(
                f"{path}: it holds vectors of another encoder, {theirs.get('encoder')}; name another folder"
            )
        for name in sorted(settings.keys() - {"encoder"}):
            if theirs.get(name) != settings[name]:
                raise InputError(
                    f"{path}: its vectors were made with {name} {theirs.get(name)}, not {settings[name]}; name another "
                    "folder or give the same options"
                )

    def claim(self, name: str, wait: bool = False) -> AbstractContextManager[object] | None:
        """Claims a part by its name until the block ends; None if another process holds the claim."""
        path = self._state / f"{name}.lock"
        make_folder(path.parent)
        try:
            return FileLock(path, timeout=-1 if wait else 0, fallback_to_soft=False).acquire()
        except Timeout:
            return None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            if self._has_locks:
                logger.warning("%s: its file system has no locks; give each process other files.", self.path)
            self._has_locks = False
            return nullcontext()

    def is_done(self, part: Part) -> bool:
        """Whether the part has its vectors, and neither they nor their source have changed since."""
        record, target, source = read_json(self._record(part), missing_ok=True), self.path / part.name, _facts(part)
        return source.items() <= record.items() and target.exists() and target.stat().st_size == record["bytes"]

    def make(self, part: Part, write: Callable[[Path], object]) -> bool:
        """Makes a claimed part: its file of vectors by `write`, which gets a path, and then its record.

        What is out of date or unfinished is removed. Returns False if only the record was missing, because a process
        died before it wrote that.
        """
        target, source = self.path / part.name, _facts(part)
        (self.path / MANIFEST).unlink(missing_ok=True)
        for path in (target, self._record(part)):
            make_folder(path.parent)
        if self._record(part).exists():
            target.unlink(missing_ok=True)
            self._record(part).unlink()
        for left in self._state.glob(f"{escape(part.name)}.*.part"):
            left.unlink(missing_ok=True)
        if is_missing := not target.exists():
            unfinished = self._state / f"{part.name}.{uuid.uuid4().hex}.part"
            try:
                write(unfinished)
                put_into_place(unfinished, target)
            finally:
                unfinished.unlink(missing_ok=True)
        facts = {"rows": count_rows(target), "bytes": target.stat().st_size, "sha256": file_sha256(target)}
        write_text(self._record(part), _json({"file": part.name, "source": str(part.source), **source, **facts}))
        return is_missing

    def finish(self) -> list[dict[str, Any]]:
        """Writes the manifest, and returns the records of all parts."""
        paths = sorted(path for path in self._state.rglob("*.json") if path.name != SETTINGS)
        records = [read_json(path) for path in paths]
        settings, rows = read_json(self._state / SETTINGS), sum(record["rows"] for record in records)
        manifest = {"isotune": version("isotune"), **settings, "rows": rows, "parts": records}
        write_text(self.path / MANIFEST, _json(manifest))
        return records

    def _record(self, part: Part) -> Path:
        return self._state / f"{part.name}.json"


def _facts(part: Part) -> dict[str, int]:
    """The size and the time (nanoseconds since 1970) of a part's source: another value means a changed source."""
    facts = part.source.stat()
    return {"source_bytes": facts.st_size, "source_modified": facts.st_mtime_ns}


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"
