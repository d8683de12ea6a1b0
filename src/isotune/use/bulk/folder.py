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
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from glob import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from isotune.encoder.format.checksums import file_sha256
from isotune.errors import InputError
from isotune.files import make_folder, read_json, write_text
from isotune.use.bulk.parts import Part
from isotune.use.bulk.vector_file import count_rows

MANIFEST = "_manifest.json"
STATE = ".encoding"
SETTINGS = "settings.json"
NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}  # of a file system that has none


class VectorFolder:
    """A folder of vectors, which several processes may fill at the same time."""

    def __init__(self, path: Path, settings: Mapping[str, Any], has_locks: bool) -> None:
        """Opens a folder, or makes a new one.

        Args:
            path: the folder.
            settings: what decides the vectors: the encoder's name and fingerprint, and options; as JSON has them.
            has_locks: whether processes share the parts by locks.

        Raises:
            InputError: the folder has vectors of another encoder or of other settings, or files of another origin; or
                it can't be written or has no locks.
        """
        self.path, self.has_locks, self._state = path, has_locks, path / STATE
        try:
            if path.is_dir() and not self._state.is_dir() and any(path.iterdir()):
                raise InputError(f"{path}: it has files that isotune encode did not make; name a new folder")
            make_folder(self._state)
            with self.claim(SETTINGS, wait=True) or nullcontext():
                if not (self._state / SETTINGS).exists():
                    write_text(self._state / SETTINGS, _json(settings))
            self._compare(settings, read_json(self._state / SETTINGS))
        except OSError as error:
            raise InputError(f"{path}: it can't be written ({error.strerror or error}); name another folder") from error

    def _compare(self, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        if theirs.get("fingerprint") != ours["fingerprint"]:
            raise InputError(
                f"{self.path}: it holds vectors of another encoder, {theirs.get('encoder')}; name another folder"
            )
        for name in sorted(ours.keys() - {"encoder"}):
            if theirs.get(name) != ours[name]:
                raise InputError(
                    f"{self.path}: its vectors were made with {name} {theirs.get(name)}, not {ours[name]}; name "
                    "another folder or give the same options"
                )

    def claim(self, name: str, wait: bool = False) -> AbstractContextManager[object] | None:
        """Claims a part by its name until the block ends; None if another process holds the claim.

        Raises:
            InputError: the file system has no locks.
        """
        if not self.has_locks:
            return nullcontext()
        path = self._state / f"{name}.lock"
        make_folder(path.parent)
        try:
            return FileLock(path, timeout=-1 if wait else 0, fallback_to_soft=False).acquire()
        except Timeout:
            return None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            raise InputError(
                f"{self.path}: its file system has no locks ({error.strerror}), by which processes share the files; "
                "give each process its share, such as --shard 1/2 and --shard 2/2"
            ) from error

    def target(self, part: Part) -> Path:
        """The part's file of vectors."""
        return self.path / part.name

    def is_done(self, part: Part) -> bool:
        """Whether the part has its vectors, and neither they nor their source have changed since."""
        record, target, source = _record(self._record_path(part)), self.target(part), part.source.stat()
        is_unchanged = (record.get("source_bytes"), record.get("source_modified")) == (
            source.st_size,
            source.st_mtime_ns,
        )
        return is_unchanged and target.exists() and target.stat().st_size == record["bytes"]

    def prepare(self, part: Part) -> Path:
        """Removes what is out of date or unfinished of a part; returns a new path for an unfinished file."""
        for path in (self.target(part), self._record_path(part)):
            make_folder(path.parent)
        if _record(self._record_path(part)):
            self.target(part).unlink(missing_ok=True)
            self._record_path(part).unlink()
        for unfinished in self._state.glob(f"{escape(part.name)}.*.part"):
            unfinished.unlink(missing_ok=True)
        return self._state / f"{part.name}.{uuid.uuid4().hex}.part"

    def record(self, part: Part) -> None:
        """Writes the record of a part whose file of vectors is there; the file is read once."""
        target, source = self.target(part), part.source.stat()
        record = {
            "file": part.name,
            "source": str(part.source),
            "source_bytes": source.st_size,
            "source_modified": source.st_mtime_ns,  # nanoseconds since 1970
            "rows": count_rows(target),
            "bytes": target.stat().st_size,
            "sha256": file_sha256(target),
        }
        write_text(self._record_path(part), _json(record))

    def records(self) -> list[dict[str, Any]]:
        """The records of all parts that are done."""
        paths = sorted(path for path in self._state.rglob("*.json") if path.name != SETTINGS)
        return [record for record in map(_record, paths) if record]

    def write_manifest(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Writes what the folder holds."""
        rows = sum(record["rows"] for record in records)
        settings = read_json(self._state / SETTINGS)
        manifest = {"isotune": version("isotune"), **settings, "rows": rows, "parts": records}
        write_text(self.path / MANIFEST, _json(manifest))

    def remove_manifest(self) -> None:
        """Removes the manifest while parts are missing."""
        (self.path / MANIFEST).unlink(missing_ok=True)

    def _record_path(self, part: Part) -> Path:
        return self._state / f"{part.name}.json"


def _record(path: Path) -> dict[str, Any]:
    """The record in a file; empty if there is none, or what a former version kept there while it made a part."""
    content = read_json(path, missing_ok=True)
    return content if "sha256" in content else {}


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"
