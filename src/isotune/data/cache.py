"""A cache of texts that are costly to make from other texts (translations, negations).

A cache is one SQLite file. The entry of a text under given settings never changes, so every reader,
in this process or another, gets the same answer. An entry is in the file before it is handed out.
So a killed run loses at most one batch, and two runs that make the same text agree on one of the
results. Each entry has a checksum, so that a damaged text is never trained on.
"""

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from isotune.errors import as_input_error
from isotune.files import make_folder

LONGEST_WRITE = 60
"""Seconds for another process to finish writing its batch."""

_TABLE = """
    CREATE TABLE IF NOT EXISTS texts
    (key BLOB PRIMARY KEY, derived TEXT NOT NULL, crc32 INTEGER NOT NULL) WITHOUT ROWID
"""


def cache_folder(source: str) -> Path:
    """The folder of a source's caches: `.isotune` beside a file if it can be written.

    Anything else has its caches in the user's cache folder.
    """
    folder = os.path.dirname(source) or "."
    if os.path.isfile(source) and os.access(folder, os.W_OK):
        return Path(folder, ".isotune")
    user_folder = os.environ.get("XDG_CACHE_HOME")
    if not user_folder:
        # A user without a name, as in a container, may have no home folder.
        with as_input_error(
            RuntimeError, "there is no home folder", "; set XDG_CACHE_HOME to a folder"
        ):
            user_folder = str(Path.home() / ".cache")
    return Path(user_folder, "isotune")


def derived_texts(
    path: Path | None,
    settings: Mapping[str, object],
    texts: Iterable[str],
    make: Callable[[list[str]], list[str]],
    batch_size: int,
) -> Iterator[tuple[str, str]]:
    """Yields each text with the text made from it.

    `make` gets the new ones of `batch_size` texts, each once. The cache is the file at `path`, made
    if it does not exist; without a path, results last for this call only. The settings are
    everything besides the text that the result depends on, as JSON can write it.
    """
    texts = iter(texts)
    prefix = json.dumps(dict(settings), sort_keys=True)
    with _errors(path):
        if path:
            make_folder(path.parent)
        # "" is a nameless file, gone when it is closed.
        connection = sqlite3.connect(path or "", timeout=LONGEST_WRITE)
    with closing(connection) as cache:
        with _errors(path):
            cache.execute(_TABLE)
        while batch := list(islice(texts, batch_size)):
            keys = {text: hashlib.sha256(f"{prefix}\0{text}".encode()).digest() for text in batch}
            with _errors(path):
                derived_of = _read(cache, keys)
            missing = [text for text in keys if text not in derived_of]
            if missing:
                new_texts = make(missing)
                with _errors(path):
                    derived_of = _add(cache, keys, missing, new_texts)
            for text in batch:
                yield text, derived_of[text]


def _add(
    cache: sqlite3.Connection, keys: Mapping[str, bytes], texts: list[str], new_texts: list[str]
) -> dict[str, str]:
    """Writes new texts in one transaction; gives the entries of all keys.

    Another process may have been first. Its texts are kept.
    """
    entries = []
    for text, derived in zip(texts, new_texts, strict=True):
        entries.append((keys[text], derived, _checksum(keys[text], derived)))
    with cache:
        cache.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", entries)
    derived_of = _read(cache, keys)
    if derived_of.keys() != keys.keys():
        raise sqlite3.DatabaseError("what is written into it can't be read")
    return derived_of


def _read(cache: sqlite3.Connection, keys: Mapping[str, bytes]) -> dict[str, str]:
    """The derived texts that the cache has, by their texts."""
    query = "SELECT derived, crc32 FROM texts WHERE key = ?"
    derived_of = {}
    for text, key in keys.items():
        for derived, checksum in cache.execute(query, [key]):
            if checksum != _checksum(key, derived):
                raise sqlite3.DatabaseError("the checksum of an entry is wrong")
            derived_of[text] = derived
    return derived_of


@contextmanager
def _errors(path: Path | None) -> Iterator[None]:
    """Turns an error of the file into one line, which says whether the file is damaged."""
    name = f"{path}: the cache of derived texts"
    # sqlite3 raises DatabaseError itself for a wrong format or checksum, and its other classes for
    # all else. A damaged name of a table is a UnicodeDecodeError.
    damage = (sqlite3.DatabaseError, UnicodeDecodeError)
    other = (
        OSError,
        sqlite3.DataError,
        sqlite3.IntegrityError,
        sqlite3.InterfaceError,
        sqlite3.InternalError,
        sqlite3.NotSupportedError,
        sqlite3.OperationalError,
        sqlite3.ProgrammingError,
    )
    with (
        as_input_error(damage, f"{name} is damaged", "; remove it to make them again"),
        as_input_error(other, f"{name} can't be used"),
    ):
        yield


def _checksum(key: bytes, derived: str) -> int:
    # In a damaged file, the value may be of any type.
    return zlib.crc32(str(derived).encode(), zlib.crc32(key))
