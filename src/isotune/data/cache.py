"""Texts made from texts at some cost (translations, negations), made once and kept.

A cache is one SQLite file. What is in it under one text and one set of settings never changes: whoever asks again,
in this process or another, gets the same answer, and what was made is in the file before it is handed out. So a run
that is killed loses one batch at most, and two runs that make the same text agree on one of the results.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from isotune.errors import InputError

WAIT = 60  # seconds for another process to finish writing its batch

_TABLES = """
    CREATE TABLE IF NOT EXISTS settings (id INTEGER PRIMARY KEY, settings TEXT UNIQUE NOT NULL);
    CREATE TABLE IF NOT EXISTS derived (
        settings INTEGER NOT NULL, text TEXT NOT NULL, derived TEXT NOT NULL, PRIMARY KEY (settings, text)
    ) WITHOUT ROWID;
"""


def cache_folder(source: str) -> Path:
    """Where texts derived from a source are kept.

    `.isotune` beside it, if it is a file in a folder that can be written to, or else the user's cache folder.
    """
    folder = Path(source).parent
    if Path(source).is_file() and os.access(folder, os.W_OK):
        return folder / ".isotune"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "isotune")


@dataclass(frozen=True)
class Derived:
    """What texts were turned into.

    Attributes:
        path: the cache's file, which is made if it isn't there; None keeps nothing beyond one call.
        settings: all that the derived text depends on besides the text, as JSON can write it.
    """

    path: Path | None
    settings: Mapping[str, object]

    def get_or_make(
        self, texts: Iterable[str], make: Callable[[list[str]], list[str]], batch: int
    ) -> Iterator[tuple[str, str]]:
        """Each text with what it is turned into, in order; memory doesn't grow with their number.

        Args:
            texts: may repeat.
            make: turns different texts, `batch` of them at most, into as many; called for what isn't known yet.
            batch: how many texts are read, made and written at a time.

        Raises:
            InputError: the file is damaged, or it can't be written.
        """
        texts = iter(texts)
        with closing(self._opened()) as cache:
            while chunk := list(islice(texts, batch)):
                known = self._known(cache, chunk)
                missing = [text for text in dict.fromkeys(chunk) if text not in known]
                if missing:
                    self._keep(cache, missing, make(missing))
                    known |= self._known(cache, missing)  # another process may have been first
                yield from ((text, known[text]) for text in chunk)

    def _opened(self) -> sqlite3.Connection:
        try:
            if self.path:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            cache = sqlite3.connect(self.path or "", timeout=WAIT)  # "": a nameless file, gone when it is closed
            try:
                cache.executescript(_TABLES)
            except sqlite3.Error:
                cache.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise self._problem(error) from error
        return cache

    def _known(self, cache: sqlite3.Connection, texts: Sequence[str]) -> dict[str, str]:
        query = "SELECT derived FROM derived WHERE text = ? AND settings = (SELECT id FROM settings WHERE settings = ?)"
        try:
            found = {text: cache.execute(query, (text, self._key)).fetchall() for text in texts}
        except sqlite3.Error as error:
            raise self._problem(error) from error
        return {text: derived for text, rows in found.items() for (derived,) in rows}

    def _keep(self, cache: sqlite3.Connection, texts: Sequence[str], derived: Sequence[str]) -> None:
        insert = "INSERT OR IGNORE INTO derived SELECT id, ?, ? FROM settings WHERE settings = ?"
        try:
            with cache:  # one transaction
                cache.execute("INSERT OR IGNORE INTO settings (settings) VALUES (?)", (self._key,))
                cache.executemany(insert, [(*pair, self._key) for pair in zip(texts, derived, strict=True)])
        except sqlite3.Error as error:
            raise self._problem(error) from error

    @property
    def _key(self) -> str:
        return json.dumps(dict(self.settings), sort_keys=True)

    def _problem(self, error: sqlite3.Error | OSError) -> InputError:
        if isinstance(error, sqlite3.OperationalError | OSError):  # locked, full, not writable
            return InputError(f"{self.path}: the cache of derived texts can't be used ({error})")
        return InputError(f"{self.path}: the cache of derived texts is damaged ({error}); remove it to make them again")
