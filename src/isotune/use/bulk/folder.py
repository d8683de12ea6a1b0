"""A folder of vectors: what all of its vectors have in common, which parts are done, and the manifest.

    vectors/part-07.parquet                      a file of vectors, whole or not there
    vectors/_manifest.json                       when all parts are done: what the folder holds
    vectors/.encoding/settings.json              what all vectors have in common
    vectors/.encoding/part-07.parquet.json       the part's state: a claim of its encoding, later its record
    vectors/.encoding/part-07.parquet.KEY.part   an unfinished file

Readers of a folder of parquet files skip names that begin with a dot or an underscore.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from isotune.errors import InputError
from isotune.files import create_text, make_folder, write_text
from isotune.use.bulk.claims import read_state
from isotune.use.bulk.parts import Part
from isotune.use.bulk.vector_file import count_rows

MANIFEST = "_manifest.json"
STATE = ".encoding"
SETTINGS = "settings.json"


@dataclass(frozen=True)
class Settings:
    """What decides the vectors of a folder; all of its parts have the same settings."""

    encoder: str  # its name, for people
    fingerprint: str
    dimension: int
    precision: str
    normalize: bool
    columns: Mapping[str, str]
    suffix: str  # of the files


@dataclass(frozen=True)
class Record:
    """What became of a part."""

    file: str
    source: str
    source_bytes: int
    source_modified: int  # nanoseconds since 1970, when the source was last written
    rows: int
    bytes: int
    sha256: str


class VectorFolder:
    """A folder of vectors, which several processes may fill at the same time."""

    def __init__(self, path: Path, settings: Settings) -> None:
        """Opens a folder, or makes a new one.

        Raises:
            InputError: the folder has vectors of another encoder or of other settings, or files of another origin; or
                it can't be written.
        """
        self.path = path
        state = path / STATE
        try:
            if path.is_dir() and not state.is_dir() and any(path.iterdir()):
                raise InputError(f"{path}: it has files that isotune encode did not make; name a new folder")
            make_folder(state)
            if not create_text(state / SETTINGS, _json(asdict(settings))):
                self._compare(asdict(settings), read_state(state / SETTINGS))
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

    def target(self, part: Part) -> Path:
        """The part's file of vectors."""
        return self.path / part.name

    def state(self, part: Part) -> Path:
        """The file that is a claim of the part, and later its record."""
        return self.path / STATE / f"{part.name}.json"

    def unfinished(self, part: Part, key: str) -> Path:
        """The file for the part's vectors while they are written."""
        return self.path / STATE / f"{part.name}.{key}.part"

    def make_room(self, part: Part) -> None:
        """Makes the folders that the part's files are in."""
        for file in (self.target(part), self.state(part)):
            make_folder(file.parent)

    def new_record(self, part: Part) -> str:
        """The record of a part whose file of vectors is there, as JSON. The file is read once."""
        target = self.target(part)
        with target.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        source = part.source.stat()
        record = Record(
            file=part.name,
            source=str(part.source),
            source_bytes=source.st_size,
            source_modified=source.st_mtime_ns,
            rows=count_rows(target),
            bytes=target.stat().st_size,
            sha256=sha256,
        )
        return _json(asdict(record))

    def is_done(self, part: Part) -> bool:
        """Whether the part has its vectors. If its source or vectors have changed since, its record is removed."""
        record = self._record(self.state(part))
        if record is None:
            return False
        target, source = self.target(part), part.source.stat()
        is_unchanged = (record.source_bytes, record.source_modified) == (source.st_size, source.st_mtime_ns)
        if is_unchanged and target.exists() and target.stat().st_size == record.bytes:
            return True
        target.unlink(missing_ok=True)
        self.state(part).unlink(missing_ok=True)
        return False

    def _record(self, state: Path) -> Record | None:
        content = read_state(state)
        return Record(**content) if "sha256" in content else None

    def write_manifest(self) -> tuple[int, int]:
        """Writes what the folder holds; returns the numbers of parts and of rows."""
        states = (path for path in sorted((self.path / STATE).rglob("*.json")) if path.name != SETTINGS)
        records = [record for record in map(self._record, states) if record]
        rows = sum(record.rows for record in records)
        settings = read_state(self.path / STATE / SETTINGS)
        manifest = {"isotune": version("isotune"), **settings, "rows": rows, "parts": list(map(asdict, records))}
        write_text(self.path / MANIFEST, _json(manifest))
        return len(records), rows

    def remove_manifest(self) -> None:
        """Removes the manifest while parts are missing."""
        (self.path / MANIFEST).unlink(missing_ok=True)


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"
