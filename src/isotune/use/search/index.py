"""A search index: documents on disk with their vectors and words, and the encoder that made the vectors.

An index is a folder: `index.json` says which encoder made the vectors, and `rows.lance` is a table of LanceDB
(`store.py`). A query is compared with all vectors.

Documents are told apart by their ids. Adding documents makes the index agree with them: new ids are added, rows with
another text or other columns are replaced, and the rest is left alone and not encoded. So a command that was killed
goes on when it is given again.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from isotune.data.rows import Cells, Record
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import PART, progress
from isotune.errors import InputError, telling
from isotune.evaluation.text_changes import FEWEST_SENTENCES, compare_text
from isotune.files import make_folder, read_json, write_text
from isotune.kernels import Precision
from isotune.kernels.precision import resolved
from isotune.use.search.documents import Document, as_documents
from isotune.use.search.store import FIXED, TABLE_FOLDER, Row, Store, refuse_name
from isotune.use.tables import typed

# Hybrid search adds 1 / (60 + rank) over both rankings: Cormack, Clarke and Buettcher (2009), "Reciprocal rank fusion".
FUSION = 60
FUSED = 100  # rows of each ranking, at least
ASKED = 1_000  # rows that show what another encoder changes
MOST = 1_000_000_000  # rows of an answer; LanceDB counts with 32 bits
DESCRIPTION = "index.json"
LOCK = "lock"
UNUSED = {
    LOCK,
    TABLE_FOLDER,
}  # what a process leaves that is killed before the index has a description
KEYS = {"encoder", "precision", "fingerprint", "dimension"}  # of the description


class Hit(NamedTuple):
    """A row of the index that fits a query, and the cosine of its vector and the query's."""

    cosine: float
    id: str
    text: str
    columns: dict[str, Any]


class Changes(NamedTuple):
    """How many rows were added, were replaced, and were in the index already."""

    added: int
    replaced: int
    unchanged: int


class Index:
    """A search index in a folder; `create` or `open` gives one."""

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.folder = folder
        self.description = description
        self.store = Store(folder, description["dimension"])
        self._encoder: Encoder | None = None

    @classmethod
    def create(
        cls,
        folder: str | Path,
        encoder: str | Path | Encoder,
        *,
        precision: Precision | None = None,
    ) -> Index:
        """Creates an empty index in a new or empty folder.

        Args:
            folder: where to make the index.
            encoder: a folder or a hub name, which `open` will load again; or a loaded encoder,
                which `open` has to be given again.
            precision: what a named encoder computes in; None for the type of its weights.

        Raises:
            InputError: the folder is not empty or can't be written, the encoder can't be loaded, or LanceDB is not
                installed.
        """
        folder = Path(folder)
        name = None
        if not isinstance(encoder, Encoder):
            name = str(Path(encoder).resolve()) if Path(encoder).exists() else str(encoder)
            encoder = Encoder.load(encoder, precision=precision)
            precision = resolved(precision, encoder.device.type)
        description = {
            "encoder": name,
            "precision": precision,
            "fingerprint": encoder.fingerprint(),
            "dimension": encoder.dimension,
        }
        with telling(OSError, f"{folder}: it can't be written"):
            make_folder(folder)
            if any(path.suffix != ".part" and path.name not in UNUSED for path in folder.iterdir()):
                raise InputError(
                    f"{folder}: it exists already and is not empty; an index is made in a new folder"
                )
            with _changing(folder):
                if (folder / DESCRIPTION).exists():
                    raise InputError(
                        f"{folder}: another process has made an index here; give the command again"
                    )
                index = cls(folder, description)
                if len(index):
                    raise InputError(
                        f"{folder}: {DESCRIPTION} is missing, and the table has {len(index):,} rows of an encoder that "
                        "is not known; put the file back, or remove the folder and make the index again"
                    )
                # Last the description: nobody opens an index without a table, and a killed command can go on.
                write_text(folder / DESCRIPTION, json.dumps(description, indent=2) + "\n")
        index._encoder = encoder
        return index

    @classmethod
    def open(cls, folder: str | Path, encoder: str | Path | Encoder | None = None) -> Index:
        """Opens an index. Its encoder is loaded when it is needed, unless another copy of it is given."""
        path = Path(folder, DESCRIPTION)
        if not path.exists():
            raise InputError(
                f"{folder}: no index; make one with isotune index ENCODER FILE --out {folder}"
            )
        description = read_json(path)
        if not isinstance(description, dict) or not description.keys() >= KEYS:
            raise InputError(f"{path}: it does not describe an index; make a new index")
        index = cls(path.parent, description)
        if encoder is not None:
            index._use(encoder)
        return index

    @property
    def encoder(self) -> Encoder:
        """The encoder that made the vectors."""
        if self._encoder is None and self.description["encoder"] is None:
            raise InputError(
                f"{self.folder}: it was made with an encoder without a name; give the encoder"
            )
        return self._encoder or self._use(self.description["encoder"])

    def __len__(self) -> int:
        return len(self.store)

    def add(
        self, documents: Iterable[Document | Mapping[str, object]], *, show_progress: bool = False
    ) -> Changes:
        """Makes the index agree with documents: adds those with new ids and replaces those that have changed.

        Documents may be rows: dicts or a table (pandas, polars, Arrow, `datasets`), with ids in the column "id".
        Each part of some thousand rows is a commit, and stays if the process is killed afterwards.

        Raises:
            InputError: two documents have the same id, a column can't be kept, or another process changes the index.
        """
        with (
            _changing(self.folder),
            typed(_records(as_documents(documents)), self.store.schema) as (schema, tables),
        ):
            self.store.take_columns(schema)
            return self._add(tables, show_progress)

    def _add(self, tables: Iterable[pa.Table], show_progress: bool) -> Changes:
        added = replaced = unchanged = 0
        rows = self.store.schema.empty_table()  # those that are encoded and not yet written

        def texts() -> Iterator[str]:
            nonlocal added, replaced, unchanged, rows
            for table in tables:
                changed, known = self.store.changed(table)
                added, replaced = added + len(changed) - known, replaced + known
                unchanged += len(table) - len(changed)
                rows = pa.concat_tables([rows, changed])
                yield from changed["text"].to_pylist()

        with progress(None, show_progress) as advance:
            encoder = self.encoder.prompted("document")
            for part, vectors in encoder.encode_parts(texts(), normalize=True, advance=advance):
                self.store.put(rows.slice(0, len(part)), vectors)
                rows = rows.slice(len(part))
                self.store.tend(finished=False)
            self.store.tend(finished=True)
        return Changes(added, replaced, unchanged)

    def add_index(self, other: Index, *, show_progress: bool = False) -> Changes:
        """Adds the rows of another index, whose vectors another encoder may have made: texts are encoded again.

        The other index can be searched meanwhile, but not changed.
        """
        if other.folder.resolve() == self.folder.resolve():
            raise InputError(
                f"{self.folder}: an index can't be added to itself; name another folder"
            )
        with _changing(other.folder), _changing(self.folder):
            self.store.take_columns(other.store.schema)
            return self._add(other.store.tables(PART), show_progress)

    def kept_hits(self, encoder: Encoder) -> tuple[int, int]:
        """How many of at most `ASKED` texts keep their nearest with another encoder, and how many texts these are."""
        drawn = self.store.at(np.random.default_rng(0).permutation(len(self))[:ASKED].tolist())
        rows = list({row["text"]: row for row in drawn}.values())
        if len(rows) < FEWEST_SENTENCES:
            return len(rows), len(rows)
        texts, before = (
            [row["text"] for row in rows],
            np.array([row["vector"] for row in rows], np.float32),
        )
        changes = compare_text(before, encoder.encode_document(texts, normalize=True), texts)
        return round(changes.same_nearest * len(rows)), len(rows)

    def delete(self, where: str) -> int:
        """Deletes the rows that fit a filter, such as "lang = 'en'" or "id = 'notes.txt:7'"; returns their number."""
        with _changing(self.folder):
            count = self.store.delete(where)
            self.store.tend(finished=True)
        return count

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        where: str | None = None,
        hybrid: bool = False,
        vector: NDArray[np.float32] | None = None,
    ) -> list[Hit]:
        """The k rows nearest to a query, the nearest first.

        Args:
            query: a text.
            k: how many rows; fewer come back if fewer fit.
            where: a condition on the columns (`filters.py` has the grammar), such as "lang = 'en' and year > 2020".
            hybrid: whether to join the ranking by cosine with a ranking by words (BM25).
            vector: the query's vector [d] of length 1, if it is known already.

        Raises:
            InputError: the query is blank, `k` is not from 1 to `MOST`, or the filter can't be read.
        """
        if not query.strip():
            raise InputError("the query is empty; write what to search for")
        if not 1 <= k <= MOST:
            raise InputError(f"k {k}: at least 1 row must be asked for, and at most {MOST:,}")
        if vector is None:
            vector = self.encoder.encode_query(query.strip(), normalize=True)
        ranked = max(k, FUSED) if hybrid else k
        rows = self.store.nearest(vector, ranked, where)
        if hybrid:
            rows = _fuse(rows, self.store.by_words(query, ranked, where))[:k]
        cosines = [float(np.dot(np.asarray(row["vector"], np.float32), vector)) for row in rows]
        columns = [
            {name: value for name, value in row.items() if name not in FIXED} for row in rows
        ]
        return [
            Hit(cosine, row["id"], row["text"], of)
            for cosine, row, of in zip(cosines, rows, columns, strict=True)
        ]

    def _use(self, encoder: str | Path | Encoder) -> Encoder:
        precision = self.description["precision"]
        loaded = (
            encoder if isinstance(encoder, Encoder) else Encoder.load(encoder, precision=precision)
        )
        if (fingerprint := loaded.fingerprint()) != (expected := self.description["fingerprint"]):
            name = "the given encoder" if isinstance(encoder, Encoder) else encoder
            raise InputError(
                f"{self.folder}: its vectors are of the encoder {self.description['encoder'] or ''} with the "
                f"fingerprint {expected}, but {name} has {fingerprint}; give that encoder, or make a new index"
            )
        self._encoder = loaded
        return loaded


@contextmanager
def _changing(folder: Path) -> Iterator[None]:
    try:
        lock = FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout:
        raise InputError(
            f"{folder}: another process is changing it; try again when it has ended"
        ) from None
    except OSError as error:
        raise InputError(
            f"{folder}: it can't be locked ({error.strerror or error}); copy it first"
        ) from error
    with lock:
        yield


def _records(documents: Iterable[Document]) -> Iterator[tuple[str, Record]]:
    names: set[str] = set()
    full = telling(
        sqlite3.Error, "the ids can't be compared in a temporary file", "; free some space"
    )
    with (
        full,
        closing(sqlite3.connect("")) as ids,
    ):  # in a nameless temporary file, so that memory stays flat
        ids.execute("CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID")
        for document in documents:
            place = document.place or document.id
            for name in document.columns.keys() - names:
                refuse_name(name, place)
                names.add(name)
            key = str(document.id).encode(errors="surrogatepass")
            if not ids.execute("INSERT OR IGNORE INTO ids VALUES (?)", [key]).rowcount:
                raise InputError(
                    f"{place}: two rows have the id {document.id!r}; name another column as id"
                )
            record = {"id": document.id, "text": document.text, **document.columns}
            yield place, Cells(record) if isinstance(document.columns, Cells) else record


def _fuse(*rankings: list[Row]) -> list[Row]:
    """One ranking of several: by the sum of 1 / (60 + rank), the largest first."""
    rows: dict[str, Row] = {}
    scores: defaultdict[str, float] = defaultdict(float)
    for ranking in rankings:
        for rank, row in enumerate(ranking, 1):
            rows[row["id"]] = row
            scores[row["id"]] += 1 / (FUSION + rank)
    return sorted(rows.values(), key=lambda row: -scores[row["id"]])
