"""A search index: documents on disk with their vectors and words, and the encoder that made them.

An index is a folder: `index.json` says which encoder made the vectors, and `rows.lance` is a table
of LanceDB (`store.py`). A query is compared with all vectors, or with smaller ones that LanceDB
makes of them.

Documents are told apart by their ids. Adding documents makes the index agree with them: new ids are
added, rows with another text or other columns are replaced, and the rest is left alone and not
encoded. So a command that was killed goes on when it is given again.

An index without rows, which a failed command leaves, takes any encoder: `add` writes which.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from isotune.data.rows import Cells, Record
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import PART, progress
from isotune.errors import InputError, as_input_error
from isotune.evaluation.retrieval import fused_scores
from isotune.evaluation.text_changes import FEWEST_SENTENCES, compare_text
from isotune.files import make_folder, read_json, write_text
from isotune.kernels import Precision
from isotune.kernels.precision import resolved
from isotune.use.quantization import Kind, check_kind
from isotune.use.search.documents import Document, as_documents
from isotune.use.search.store import FIXED, TABLE_FOLDER, Row, Store, refuse_name
from isotune.use.tables import to_tables

# A hybrid search joins at least so many rows of each ranking.
FUSED = 100
# So many random rows show what another encoder changes.
ASKED = 1_000
# So many random rows look for so many nearest ones, to show what smaller vectors change.
QUERIES = 100
NEAREST = 10
# An answer has at most so many rows, because LanceDB counts them with 32 bits.
MOST = 1_000_000_000
DESCRIPTION = "index.json"
LOCK = "lock"
# What a process leaves that is killed before the index has a description.
UNUSED = {LOCK, TABLE_FOLDER}
# The keys of a description.
KEYS = {"encoder", "precision", "fingerprint", "dimension"}
# What other libraries call the arguments of a search.
SYNONYMS = {
    "top_k": "k",
    "topk": "k",
    "top": "k",
    "limit": "k",
    "n": "k",
    "n_results": "k",
    "num_results": "k",
    "filter": "where",
    "filters": "where",
    "text": "query",
    "q": "query",
}

P = ParamSpec("P")
T = TypeVar("T")


class Hit(NamedTuple):
    """A row of the index that fits a query, and the cosine of its vector and the query's."""

    cosine: float
    id: str
    text: str
    columns: dict[str, Any]

    joined: float | None = None
    """In a hybrid search, what its rows are ordered by: the sum of 1 / (60 + rank) over the ranking
    by cosine and that by words."""


class Changes(NamedTuple):
    """How many rows were added, were replaced, and were in the index already."""

    added: int
    replaced: int
    unchanged: int


def _refusing_other_names(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which answers an argument of another name by the right one."""
    names = list(signature(function).parameters)[1:]

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in names:
                raise _other_name(name, names)
        return function(*args, **kwargs)

    return called


def _other_name(name: str, names: Iterable[str]) -> InputError:
    meant = ""
    if name in SYNONYMS:
        meant = f" write {SYNONYMS[name]}=... instead;"
    return InputError(f"search has no argument {name!r};{meant} it takes {', '.join(names)}")


class Index:
    """A search index in a folder; `create` or `open` gives one."""

    def __init__(self, folder: Path, description: object = None) -> None:
        """`create` and `open` call this, and check what they give."""
        if not isinstance(description, dict):
            name = str(folder)
            raise InputError(
                f"Index: write Index.open({name!r}) to open an index, or "
                f"Index.create({name!r}, encoder) to make one"
            )
        self.folder = folder
        self.description: dict[str, Any] = description
        # Older indexes say nothing of it.
        kind = description.setdefault("vectors", "float32")
        self.store = Store(folder, description["dimension"], kind)
        self._encoder: Encoder | None = None
        # Another encoder of the same space, which asks in place of the one that made the vectors.
        self._query_encoder: Encoder | None = None
        # The description of another encoder, which an index without rows gets from `add`.
        self._next_description: dict[str, Any] | None = None

    @classmethod
    def create(
        cls,
        folder: str | Path,
        encoder: str | Path | Encoder,
        *,
        precision: Precision | None = None,
        dimensions: int | None = None,
        vectors: Kind = "float32",
    ) -> Index:
        """Creates an empty index in a new or empty folder.

        Args:
            folder: where to make the index.
            encoder: a folder or a hub name, which `open` will load again; or a loaded encoder,
                which `open` has to be given again.
            precision: what a named encoder computes in; None for the type of its weights.
            dimensions: how many features of a vector to keep, the first ones; None for all. The
                index remembers it.
            vectors: what a search compares, see `compare`.

        Raises:
            InputError: the folder is not empty or can't be written, the encoder can't be loaded, or
                LanceDB is not installed.
        """
        folder = Path(folder)
        loaded = _loaded(encoder, precision, dimensions)
        description = _description(encoder, loaded, precision, vectors)
        with as_input_error(OSError, f"{folder}: it can't be written"):
            make_folder(folder)
            if any(path.suffix != ".part" and path.name not in UNUSED for path in folder.iterdir()):
                raise InputError(
                    f"{folder}: it exists already and is not empty; "
                    "an index is made in a new folder"
                )
            with _changing(folder):
                if (folder / DESCRIPTION).exists():
                    raise InputError(
                        f"{folder}: another process has made an index here; give the command again"
                    )
                index = cls(folder, description)
                if len(index):
                    raise InputError(
                        f"{folder}: {DESCRIPTION} is missing, and the table has {len(index):,} "
                        "rows of an encoder that is not known; put the file back, or remove the "
                        "folder and make the index again"
                    )
                # The description is written last, so nobody opens an index without a table, and a
                # killed command can go on.
                index._describe(description)
        index._encoder = loaded
        return index

    @classmethod
    def open(
        cls,
        folder: str | Path,
        encoder: str | Path | Encoder | None = None,
        *,
        precision: Precision | None = None,
        dimensions: int | None = None,
    ) -> Index:
        """Opens an index. Its encoder is loaded when it is needed, unless another copy is given.

        An encoder that has learned the vectors of the index's encoder (`DistilOptions.match`) can
        be given too. It encodes the queries, and nothing can be added.

        Args:
            folder: the folder of the index.
            encoder: a copy of the encoder that made the vectors, or one that has learned them. An
                index without rows takes any.
            precision: what a named encoder computes in; None for what the index was made with.
            dimensions: how many features the vectors have; None for as many as in the index.

        Raises:
            InputError: the folder has no index, or the vectors are of another encoder or have
                another number of features.
        """
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
            index._use(encoder, precision, dimensions)
        return index

    @property
    def encoder(self) -> Encoder:
        """The encoder that made the vectors."""
        if self._encoder is not None:
            return self._encoder
        name = self.description["encoder"]
        if name is None:
            raise InputError(
                f"{self.folder}: it was made with an encoder without a name; give the encoder"
            )
        return self._use(name)

    @property
    def query_encoder(self) -> Encoder:
        """The encoder that encodes queries."""
        return self._query_encoder or self.encoder

    def __len__(self) -> int:
        return len(self.store)

    def add(
        self, documents: Iterable[Document | Mapping[str, object]], *, show_progress: bool = False
    ) -> Changes:
        """Makes the index agree with documents: adds new ids, replaces those that have changed.

        Documents may be rows: dicts or a table (pandas, polars, Arrow, `datasets`), with ids in the
        column "id". Each part of some thousand rows is a commit, and stays if the process is killed
        afterwards.

        Raises:
            InputError: a row has no id, two documents have the same id, a column can't be kept,
                another process changes the index, or it was opened by an encoder of queries alone.
        """
        self._refuse_query_encoder()
        with _changing(self.folder):
            known = self._columns_to_keep()
            with to_tables(_records(as_documents(documents)), known) as (schema, tables):
                self._begin()
                self.store.take_columns(schema)
                return self._add(tables, show_progress)

    def _columns_to_keep(self) -> pa.Schema:
        """The columns whose types stay: all, or without rows those that each index has."""
        if len(self):
            return self.store.schema
        return pa.schema([self.store.schema.field("id"), self.store.schema.field("text")])

    def _begin(self) -> None:
        """Makes an index without rows as new, for whatever encoder and columns come first."""
        if self._next_description is None and (len(self) or not self.store.columns):
            return
        description = self._next_description or self.description
        self._refuse_rows(description)
        self.store.clear(description["dimension"])
        self._describe(description)
        self._next_description = None

    def _refuse_query_encoder(self) -> None:
        """Refuses to add rows with an encoder whose vectors are only near those of the index."""
        if self._query_encoder is not None:
            raise InputError(
                f"{self.folder}: the given encoder only asks in this index, whose vectors are of "
                f"the encoder {self.description['encoder'] or ''}; give that encoder to add rows"
            )

    def _refuse_rows(self, description: dict[str, Any]) -> None:
        """Refuses the encoder of a description if another process has added rows since `open`."""
        if len(self):
            raise self._other_encoder(description["fingerprint"], "the given encoder")

    def _describe(self, description: dict[str, Any]) -> None:
        write_text(self.folder / DESCRIPTION, json.dumps(description, indent=2) + "\n")
        self.description = description

    def _add(self, tables: Iterable[pa.Table], show_progress: bool) -> Changes:
        added = replaced = unchanged = 0
        # Rows that are encoded and not yet written.
        rows = self.store.schema.empty_table()

        def texts() -> Iterator[str]:
            nonlocal added, replaced, unchanged, rows
            for table in tables:
                changed, known = self.store.changed(table)
                added += len(changed) - known
                replaced += known
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
        """Adds the rows of another index, and encodes their texts again by this one's encoder.

        The other index can be searched meanwhile, but not changed.
        """
        self._refuse_query_encoder()
        if other.folder.resolve() == self.folder.resolve():
            raise InputError(
                f"{self.folder}: an index can't be added to itself; name another folder"
            )
        with _changing(other.folder), _changing(self.folder):
            self._begin()
            self.store.take_columns(other.store.schema)
            return self._add(other.store.tables(PART), show_progress)

    def kept_hits(self, encoder: Encoder) -> tuple[int, int]:
        """How many texts keep their nearest text with another encoder, and how many were asked.

        At most `ASKED` random texts are asked.
        """
        drawn = self.store.at(np.random.default_rng(0).permutation(len(self))[:ASKED].tolist())
        rows = list({row["text"]: row for row in drawn}.values())
        if len(rows) < FEWEST_SENTENCES:
            return len(rows), len(rows)
        texts = [row["text"] for row in rows]
        before = np.array([row["vector"] for row in rows], np.float32)
        changes = compare_text(before, encoder.encode_document(texts, normalize=True), texts)
        return round(changes.same_nearest * len(rows)), len(rows)

    def compare(self, vectors: Kind) -> None:
        """Makes searches compare float32 vectors, or smaller ones of the same rows.

        Those of int8 have a byte for each feature, and those of binary a bit: LanceDB's indexes
        IVF_SQ and IVF_RQ. The nearest rows by these are compared again by float32, so the table
        keeps the float32 vectors. A search is approximate then. `add` makes the smaller vectors.

        Raises:
            InputError: there are no such vectors, or 8 doesn't divide the number of features of
                binary ones.
        """
        _check_vectors(vectors, self.description["dimension"])
        with _changing(self.folder):
            self.store.compare(vectors)
            self._describe({**self.description, "vectors": vectors})

    def same_nearest(self) -> float | None:
        """The share of the nearest rows that a search finds, of those by float32 vectors.

        At most `QUERIES` random rows look for their `NEAREST` nearest others. None if searches
        compare float32 vectors.
        """
        if not self.store.is_quantized():
            return None
        drawn = np.random.default_rng(0).permutation(len(self))[:QUERIES]
        same = 0
        asked = 0
        for row in self.store.at(drawn.tolist()):
            nearest = self._nearest_others(row, exact=True)
            found = self._nearest_others(row, exact=False)
            same += len(nearest & found)
            asked += len(nearest)
        return same / asked

    def _nearest_others(self, row: Row, exact: bool) -> set[str]:
        """The ids of the rows that are nearest to a row, without its own."""
        vector = np.asarray(row["vector"], np.float32)
        near = self.store.nearest(vector, NEAREST + 1, exact=exact)
        return {other["id"] for other in near} - {row["id"]}

    def delete(self, where: str) -> int:
        """Deletes the rows that fit a filter; returns their number.

        Filters are such as "lang = 'en'" or "id = 'notes.txt:7'".
        """
        with _changing(self.folder):
            count = self.store.delete(where)
            self.store.tend(finished=True)
        return count

    @_refusing_other_names
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
            where: a condition on the columns (`filters.py` has the grammar), such as
                "lang = 'en' and year > 2020".
            hybrid: whether to join the ranking by cosine with a ranking by words (BM25).
            vector: the query's vector [d] of length 1, if it is known already.

        Raises:
            InputError: the query is blank, `k` is not from 1 to `MOST`, or the filter can't be
                read.
        """
        if not isinstance(query, str):
            raise InputError(
                f"query: a text is needed, not {query!r:.60}; search for one at a time"
            )
        if not query.strip():
            raise InputError("the query is empty; write what to search for")
        if not 1 <= k <= MOST:
            raise InputError(f"k {k}: at least 1 row must be asked for, and at most {MOST:,}")
        if self._next_description is not None:
            # Vectors of this encoder may have another length than those that the index takes.
            self._refuse_rows(self._next_description)
            return []
        if vector is None:
            vector = self.query_encoder.encode_query(query.strip(), normalize=True)
        if hybrid:
            ranked = max(k, FUSED)
            by_vector = self.store.nearest(vector, ranked, where)
            joined = _fuse(by_vector, self.store.by_words(query, ranked, where))[:k]
            return [_hit(row, vector)._replace(joined=score) for row, score in joined]
        return [_hit(row, vector) for row in self.store.nearest(vector, k, where)]

    def _use(
        self,
        encoder: str | Path | Encoder,
        precision: Precision | None = None,
        dimensions: int | None = None,
    ) -> Encoder:
        """Takes an encoder, loaded or by its name, if its vectors fit or if there are none.

        They fit if it made the vectors of the index, or has learned to give such vectors. They are
        cut as those of the index are.
        """
        if precision is None:
            precision = self.description["precision"]
        loaded = _loaded(encoder, precision, dimensions)
        if len(self):
            loaded = self._cut(loaded, dimensions)
        fingerprint = loaded.fingerprint()
        if fingerprint != self.description["fingerprint"]:
            if len(self):
                if loaded.space_of == self.description["fingerprint"]:
                    self._query_encoder = loaded
                    return loaded
                name = encoder
                if isinstance(encoder, Encoder):
                    name = "the given encoder"
                raise self._other_encoder(fingerprint, name)
            kind = self.description["vectors"]
            self._next_description = _description(encoder, loaded, precision, kind)
        self._encoder = loaded
        return loaded

    def _cut(self, encoder: Encoder, dimensions: int | None) -> Encoder:
        """An encoder with vectors as long as those of the index, or shorter ones if it has no more.

        Raises:
            InputError: other `dimensions` were asked for.
        """
        kept: int = self.description["dimension"]
        if dimensions not in (None, kept):
            raise InputError(
                f"{self.folder}: its vectors have {kept} features, not {dimensions}; give "
                f"dimensions {kept} or none, or make a new index"
            )
        if encoder.dimension > kept:
            return encoder.cut_to(kept)
        return encoder

    def _other_encoder(self, fingerprint: str, name: object) -> InputError:
        return InputError(
            f"{self.folder}: its vectors are of the encoder {self.description['encoder'] or ''} "
            f"with the fingerprint {self.description['fingerprint']}, "
            f"but {name} has {fingerprint}; give that encoder, or make a new index"
        )


def _loaded(
    encoder: str | Path | Encoder, precision: Precision | None, dimensions: int | None
) -> Encoder:
    if not isinstance(encoder, Encoder):
        return Encoder.load(encoder, precision=precision, dimensions=dimensions)
    if dimensions is None:
        return encoder
    return encoder.cut_to(dimensions)


def _description(
    encoder: str | Path | Encoder, loaded: Encoder, precision: Precision | None, vectors: Kind
) -> dict[str, Any]:
    """What `index.json` says of an encoder; one that was not loaded by its name has no name."""
    _check_vectors(vectors, loaded.dimension)
    name = None
    if not isinstance(encoder, Encoder):
        name = str(encoder)
        if Path(encoder).exists():
            name = str(Path(encoder).resolve())
        precision = resolved(precision, loaded.device.type)
    return {
        "encoder": name,
        "precision": precision,
        "fingerprint": loaded.fingerprint(),
        "dimension": loaded.dimension,
        "vectors": vectors,
    }


def _check_vectors(vectors: Kind, dimension: int) -> None:
    """Refuses unknown vectors, and bits that don't fill whole bytes, which LanceDB can't index."""
    check_kind(vectors)
    if vectors == "binary" and dimension % 8:
        raise InputError(
            f"binary vectors in an index: 8 has to divide the number of features, which is "
            f"{dimension}; give other dimensions, such as {8 * max(1, dimension // 8)}, or int8"
        )


def _hit(row: Row, vector: NDArray[np.float32]) -> Hit:
    cosine = float(np.dot(np.asarray(row["vector"], np.float32), vector))
    columns = {name: value for name, value in row.items() if name not in FIXED}
    return Hit(cosine, row["id"], row["text"], columns)


@contextmanager
def _changing(folder: Path) -> Iterator[None]:
    """Keeps other processes from changing the index."""
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
    """Documents as records after their places, with no id twice."""
    names: set[str] = set()
    full = as_input_error(
        sqlite3.Error, "the ids can't be compared in a temporary file", "; free some space"
    )
    # The ids are in a nameless temporary file, so that memory stays flat.
    with full, closing(sqlite3.connect("")) as ids:
        ids.execute("CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID")
        for document in documents:
            place = document.place or document.id
            for name in document.columns.keys() - names:
                refuse_name(name, place)
                names.add(name)
            key = str(document.id).encode(errors="surrogatepass")
            inserted = ids.execute("INSERT OR IGNORE INTO ids VALUES (?)", [key])
            if not inserted.rowcount:
                raise InputError(
                    f"{place}: two rows have the id {document.id!r}; name another column as id "
                    "(--id COLUMN, or id_column in Python)"
                )
            record: Record = {"id": document.id, "text": document.text, **document.columns}
            if isinstance(document.columns, Cells):
                record = Cells(record)
            yield place, record


def _fuse(*rankings: list[Row]) -> list[tuple[Row, float]]:
    """One ranking of several, with the scores that it is ordered by."""
    rows: dict[str, Row] = {}
    for ranking in rankings:
        rows |= {row["id"]: row for row in ranking}
    scores = fused_scores(*([row["id"] for row in ranking] for ranking in rankings))
    return [(rows[key], score) for key, score in scores.items()]
