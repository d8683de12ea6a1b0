"""A cache of texts that are costly to make from other texts (translations, negations).

A cache is one SQLite file. The entry of a text under given settings never changes, so every reader, in this process or
another, gets the same answer. An entry is in the file before it is handed out. So a killed run loses at most one
batch, and two runs that make the same text agree on one of the results. Each entry has a checksum, so that a damaged
text is never trained on.
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

from isotune.errors import telling
from isotune.files import make_folder

LONGEST_WRITE = 60  # seconds for another process to finish writing its batch

_TABLE = """
    CREATE TABLE IF NOT EXISTS texts (key BLOB PRIMARY KEY, derived TEXT NOT NULL, crc32 INTEGER NOT NULL) WITHOUT ROWID
"""


def cache_folder(source: str) -> Path:
    """The folder of a source's caches: `.isotune` beside a file if it can be written, or the user's cache folder."""
    folder = Path(source).parent
    if Path(source).is_file() and os.access(folder, os.W_OK):
        return folder / ".isotune"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "isotune")


def derived_texts(
    path: Path | None,
    settings: Mapping[str, object],
    texts: Iterable[str],
    make: Callable[[list[str]], list[str]],
    batch_size: int,
) -> Iterator[tuple[str, str]]:
    """Yields each text with the text made from it; `make` gets the new ones of `batch_size` texts, each once.

    The cache is the file at `path`, made if it does not exist; without a path, results last for this call only. The
    settings are everything besides the text that the result depends on, as JSON can write it.
    """
    texts, prefix = iter(texts), json.dumps(dict(settings), sort_keys=True)
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
                known = _read(cache, keys)
            if missing := [text for text in keys if text not in known]:
                made = zip(missing, make(missing), strict=True)
                entries = [
                    (keys[text], derived, _checksum(keys[text], derived)) for text, derived in made
                ]
                with _errors(path):
                    with cache:  # one transaction
                        cache.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", entries)
                    known = _read(cache, keys)  # another process may have been first
                    if known.keys() != keys.keys():
                        raise sqlite3.DatabaseError("what is written into it can't be read")
            yield from ((text, known[text]) for text in batch)


def _read(cache: sqlite3.Connection, keys: Mapping[str, bytes]) -> dict[str, str]:
    known = {}
    for text, key in keys.items():
        for derived, checksum in cache.execute(
            "SELECT derived, crc32 FROM texts WHERE key = ?", [key]
        ):
            if checksum != _checksum(key, derived):
                raise sqlite3.DatabaseError("the checksum of an entry is wrong")
            known[text] = derived
    return known


@contextmanager
def _errors(path: Path | None) -> Iterator[None]:
    damage = sqlite3.Error, UnicodeDecodeError  # the latter of a damaged name of a table
    with (
        telling(
            damage,
            f"{path}: the cache of derived texts is damaged",
            "; remove it to make them again",
        ),
        telling(
            (sqlite3.OperationalError, OSError), f"{path}: the cache of derived texts can't be used"
        ),
    ):
        yield


def _checksum(key: bytes, derived: str) -> int:
    return zlib.crc32(str(derived).encode(), zlib.crc32(key))  # damaged, it may be of any type
