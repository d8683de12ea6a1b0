"""A cache of texts that are costly to make from other texts (translations, negations).

A cache is one SQLite file. The entry of a text under given settings never changes, so every reader, in this process or
another, gets the same answer. An entry is in the file before it is handed out. So a killed run loses at most one
batch, and two runs that make the same text agree on one of the results. Each entry has a checksum, so that a damaged
text is never trained on.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from isotune.errors import InputError
from isotune.files import make_folder

LONGEST_WRITE = 60  # seconds for another process to finish writing its batch

_TABLES = """
    CREATE TABLE IF NOT EXISTS settings (id INTEGER PRIMARY KEY, settings TEXT UNIQUE NOT NULL);
    CREATE TABLE IF NOT EXISTS checked (
        settings INTEGER NOT NULL, text TEXT NOT NULL, derived TEXT NOT NULL, crc32 INTEGER NOT NULL,
        PRIMARY KEY (settings, text)
    ) WITHOUT ROWID;
"""


def cache_folder(source: str) -> Path:
    """The folder of a source's caches: `.isotune` beside a file if it can be written, or the user's cache folder."""
    folder = Path(source).parent
    if Path(source).is_file() and os.access(folder, os.W_OK):
        return folder / ".isotune"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "isotune")


@dataclass(frozen=True)
class TextCache:
    """The texts that were made from texts under one set of settings."""

    path: Path | None  # the file, made if it does not exist; with None, results last for one call only
    settings: Mapping[str, object]  # everything besides the text that the result depends on, as JSON can write it

    def get_or_make(
        self, texts: Iterable[str], make: Callable[[list[str]], list[str]], batch_size: int
    ) -> Iterator[tuple[str, str]]:
        """Yields each text with the text made from it, in order; memory does not grow with their number.

        `batch_size` texts are read at a time. `make` gets those of them that are not in the cache, each once.
        """
        texts, key = iter(texts), json.dumps(dict(self.settings), sort_keys=True)
        with self._errors():
            if self.path:
                make_folder(self.path.parent)
            connection = sqlite3.connect(
                self.path or "", timeout=LONGEST_WRITE
            )  # "": a nameless file, gone when it is closed
        with closing(connection) as cache:
            with self._errors():
                cache.executescript(_TABLES)
            while batch := list(islice(texts, batch_size)):
                known = self._read(cache, key, batch)
                missing = [text for text in dict.fromkeys(batch) if text not in known]
                if missing:
                    self._write(cache, key, missing, make(missing))
                    known |= self._read(cache, key, missing)  # another process may have been first
                    with self._errors():
                        if not known.keys() >= set(missing):
                            raise sqlite3.DatabaseError("what is written into it can't be read")
                yield from ((text, known[text]) for text in batch)

    def _read(self, cache: sqlite3.Connection, key: str, texts: Sequence[str]) -> dict[str, str]:
        of_settings = "settings = (SELECT id FROM settings WHERE settings = ?)"
        query = f"SELECT derived, crc32 FROM checked WHERE text = ? AND {of_settings}"
        known = {}
        with self._errors():
            for text in texts:
                for derived, checksum in cache.execute(query, (text, key)):
                    if checksum != _checksum(key, text, derived):
                        raise sqlite3.DatabaseError("the checksum of an entry is wrong")
                    known[text] = derived
        return known

    def _write(self, cache: sqlite3.Connection, key: str, texts: Sequence[str], derived: Sequence[str]) -> None:
        insert = "INSERT OR IGNORE INTO checked SELECT id, ?, ?, ? FROM settings WHERE settings = ?"
        with self._errors(), cache:  # one transaction
            cache.execute("INSERT OR IGNORE INTO settings (settings) VALUES (?)", (key,))
            pairs = zip(texts, derived, strict=True)
            cache.executemany(insert, [(text, made, _checksum(key, text, made), key) for text, made in pairs])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Explains the errors of SQLite and of the disk."""
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:  # locked, full, not writable
            raise InputError(f"{self.path}: the cache of derived texts can't be used ({error})") from error
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of a damaged name of a table
            message = f"the cache of derived texts is damaged ({error}); remove it to make them again"
            raise InputError(f"{self.path}: {message}") from error


def _checksum(*parts: object) -> int:
    return zlib.crc32("\0".join(map(str, parts)).encode())
