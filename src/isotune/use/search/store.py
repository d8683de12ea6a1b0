"""The rows of an index on disk: a table of LanceDB with an id, a text, a vector and other columns.

A change of rows is one commit: it is there completely or not at all. A query gives whole rows, as
one commit has left them, and sees the last commit of any process. LanceDB writes a new fragment of
the table with each commit, and `tend` merges fragments when there are many of them, so that reading
stays fast.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from math import copysign
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isotune.encoder.stream import refuse_no_numbers
from isotune.errors import InputError, require_extra
from isotune.files import sync
from isotune.use.quantization import Kind
from isotune.use.search.filters import parse, refusal
from isotune.use.tables import conform, rows_of, words

Row = dict[str, Any]
"""A row as {column: value}."""

FIXED = ("id", "text", "vector")
TABLE = "rows"
TABLE_FOLDER = "rows.lance"
# Fragments are merged when there are more of them.
FRAGMENTS = 16
# Rows are put into the text index when more than so many, and more than a hundredth of all rows,
# are not in it; until then such rows are searched one by one. On an Intel Xeon (model 207), 500
# rows took 15 ms of processor time in place of 4, and 10,000 rows took 105 ms in place of 7. To put
# a row into the index of 10,000 rows takes a tenth of a second, and of 100,000 over a second.
UNINDEXED = 500
UNINDEXED_SHARE = 100
# With fewer rows, all float32 vectors are compared.
FEWEST_QUANTIZED = 1000
# Of smaller vectors, so many times the rows that are asked for are compared again by float32.
RESCORED: Mapping[Kind, int] = {"int8": 4, "binary": 20}
# Of a longer query, the first words are looked up. In 10,000 rows, 256 words take 19 ms of
# processor time with the text index, and the 8,000 words of a long page some seconds without it.
QUERY_WORDS = 256
QUERY_CHARACTERS = 2048
# LanceDB's reads may be so many bytes ahead of its searches. Its usual 2 GB make a search of a
# million rows take 0.6 GB more, and no less time.
READ_AHEAD = 2**25
# Another process may still read a version of the table of this age.
KEPT = timedelta(minutes=10)
# In a table that is being made, nobody reads for long.
KEPT_OF_NEW = timedelta(milliseconds=1)
# The name of another column; LanceDB fails at other names, or can't filter by them.
NAME = re.compile(r"(?![_*])[^.`\0\ud800-\udfff]+")
# What LanceDB says of files that are missing or not whole.
DAMAGE = re.compile(
    "corrupt|not found: |was not found|file size is too small|failed to decode|"
    "failed to fill whole buffer|invalid range|invalid seek|footer|magic|internal error",
    re.IGNORECASE,
)


def lancedb() -> Any:
    """The module lancedb, which takes a second to import.

    It logs errors only, and reads little ahead.
    """
    os.environ.setdefault("LANCEDB_LOG", "error")
    os.environ.setdefault("LANCE_DEFAULT_IO_BUFFER_SIZE", str(READ_AHEAD))
    require_extra("search", "lancedb")
    import lancedb

    return lancedb


class Store:
    """The table of an index. Threads may share it."""

    def __init__(self, folder: Path, dimension: int, kind: Kind = "float32") -> None:
        """Opens the table of a folder, or makes it. `kind` says what `nearest` compares."""
        self.folder = folder
        self.dimension = dimension
        self.kind = kind
        # Each call looks for changes that other processes have made.
        self._database = lancedb().connect(folder, read_consistency_interval=timedelta(0))
        # The files of the table that were written to the disk.
        self._on_disk: set[Path] = set()
        # Whether the table was made here, and has not all rows yet.
        self._is_new = False
        # Whether a merge in such a table has left the rows as they were before.
        self._has_copy = False
        if self._has_commits():
            with as_read_error(folder):
                self.table = self._database.open_table(TABLE)
            if self.table.schema.field("vector").type.list_size != dimension:
                raise InputError(
                    f"{folder}: its vectors don't have the {dimension} features that it describes"
                )
        else:
            # A killed process or a full disk may have left a folder without any commit.
            self._create_table()
            self._is_new = True
        self._create_text_index()

    def _has_commits(self) -> bool:
        """Whether there is a table.

        Only commits make files of rows, so a table that has such files and no commit is damaged.
        """
        folder = self.folder / TABLE_FOLDER
        return any(folder.glob("_versions/*.manifest")) or any(folder.glob("data/*"))

    def _create_table(self) -> None:
        types = (pa.string(), pa.string(), pa.list_(pa.float32(), self.dimension))
        fields = [
            pa.field(name, type_, nullable=False) for name, type_ in zip(FIXED, types, strict=True)
        ]
        with writing(self.folder):
            self.table = self._database.create_table(TABLE, schema=pa.schema(fields))

    def _create_text_index(self) -> None:
        """Makes the text index, unless it is there."""
        if any(index.columns == ["text"] for index in self.table.list_indices()):
            return
        # Words are cut by Unicode's rules, so that languages without spaces have words too.
        # Positions are left out: only phrases need them, and merging fragments has failed with
        # them.
        config = lancedb().index.FTS(
            base_tokenizer="icu", remove_stop_words=False, with_position=False
        )
        with writing(self.folder):
            self.table.create_index("text", config=config)

    def compare(self, kind: Kind) -> None:
        """Makes `nearest` compare vectors of another kind, once `tend` has finished."""
        if kind == self.kind:
            return
        self.kind = kind
        name = self._vector_index()
        if name is not None:
            with writing(self.folder):
                self.table.drop_index(name)

    def is_quantized(self) -> bool:
        """Whether `nearest` compares smaller vectors than those of float32."""
        return self.kind != "float32" and self._vector_index() is not None

    def _vector_index(self) -> str | None:
        """The name of the vector index; None if there is none."""
        for index in self.table.list_indices():
            if index.columns == ["vector"]:
                return str(index.name)
        return None

    def _create_vector_index(self) -> None:
        """Makes the vector index if there are rows enough, unless it is there or not wanted."""
        if self.kind == "float32" or len(self) < FEWEST_QUANTIZED or self._vector_index():
            return
        kinds = {"int8": lancedb().index.IvfSq, "binary": lancedb().index.IvfRq}
        with writing(self.folder):
            self.table.create_index("vector", config=kinds[self.kind](distance_type="dot"))

    def __len__(self) -> int:
        return int(self.table.count_rows())

    @property
    def schema(self) -> pa.Schema:
        """The columns without the vector."""
        return pa.schema(
            [field.with_nullable(True) for field in self.table.schema if field.name != "vector"]
        )

    @property
    def columns(self) -> list[str]:
        """The columns besides id, text and vector."""
        return [name for name in self.schema.names if name not in FIXED]

    def nearest(
        self,
        vector: NDArray[np.float32],
        k: int,
        where: str | None = None,
        exact: bool = False,
    ) -> list[Row]:
        """The k rows nearest to a vector [d] that fit a filter.

        If there is a vector index, `RESCORED` times as many rows are found by smaller vectors, and
        the k nearest of these by float32; unless it shall be `exact`. Rows that are not in that
        index yet are compared by float32.
        """
        query = self.table.search(vector, vector_column_name="vector").distance_type("dot").limit(k)
        if exact or self.kind == "float32":
            query = query.bypass_vector_index()
        else:
            # All parts of the index may be looked at, until there are k rows.
            query = query.maximum_nprobes(0).refine_factor(RESCORED[self.kind])
        return self._rows(query, where, "_distance")

    def by_words(self, query: str, k: int, where: str | None = None) -> list[Row]:
        """The k rows whose words fit a query best (BM25).

        All of the query is text. LanceDB would take a query that is a str apart, and look for a
        phrase in quotes. Of a long query, the first `QUERY_WORDS` words in the first
        `QUERY_CHARACTERS` characters are looked up.
        """
        first_words = query[:QUERY_CHARACTERS].split()[:QUERY_WORDS]
        match = lancedb().query.MatchQuery(" ".join(first_words), "text")
        return self._rows(self.table.search(match).limit(k), where, "_score")

    def first(self, k: int, where: str | None = None) -> list[Row]:
        """The first k rows that fit a filter."""
        return self._rows(self.table.search().limit(k), where)

    def at(self, places: Sequence[int]) -> list[Row]:
        """The rows at these places, from 0, in any order."""
        return self._rows(self.table.take_offsets(list(places)), None)

    def tables(self, size: int) -> Iterator[pa.Table]:
        """All rows without their vectors, at most `size` at a time: the rows of one commit."""
        for batch in self.table.search().select(self.schema.names).to_batches(size):
            yield pa.Table.from_batches([batch])

    def clear(self, dimension: int) -> None:
        """Makes a table without rows as new, for vectors of this dimension."""
        columns = self.columns
        with writing(self.folder):
            if dimension != self.dimension:
                self._database.drop_table(TABLE)
            elif columns:
                self.table.drop_columns(columns)
        if dimension != self.dimension:
            self.dimension = dimension
            self._create_table()
            self._create_text_index()

    def take_columns(self, schema: pa.Schema) -> None:
        """Gives the table the columns of a schema that it lacks.

        A column without values has the type null. With its first value it is made anew, of another
        type: the table is without it for one commit.
        """
        types = dict(zip(self.schema.names, self.schema.types, strict=True))
        new = [field for field in schema if field.name not in types]
        empty = []
        for field in schema:
            type_ = types.get(field.name, field.type)
            if field.type in (pa.null(), type_):
                continue
            if type_ != pa.null():
                raise InputError(
                    f"{self.folder}: column {field.name!r} has {words(type_)}, "
                    f"and {words(field.type)} can't be added to them"
                )
            empty.append(field.name)
            new.append(field)
        with writing(self.folder):
            if empty:
                self.table.drop_columns(empty)
            if new:
                self.table.add_columns(new)

    def count(self, where: str) -> int:
        """How many rows fit a filter."""
        with self._filtering(where) as condition:
            return int(self.table.count_rows(condition))

    def changed(self, rows: pa.Table) -> tuple[pa.Table, int]:
        """The rows that are not in the table as they are, and how many of their ids are in it.

        The rows have no vectors.
        """
        rows = conform(rows, self.schema)
        stored = self._with_ids(rows["id"].to_pylist(), rows.column_names)
        float_columns = _float_columns(rows.schema)
        is_new = [not _same(row, stored.get(row["id"]), float_columns) for row in rows.to_pylist()]
        rows = rows.filter(pa.array(is_new, pa.bool_()))
        return rows, sum(name in stored for name in rows["id"].to_pylist())

    def _with_ids(self, names: Sequence[str], columns: Sequence[str]) -> dict[str, Row]:
        """The rows with these ids, by their ids."""
        if not len(self):
            return {}
        quoted = ["'{}'".format(name.replace("'", "''")) for name in names]
        query = self.table.search().where(f"id IN ({', '.join(quoted)})")
        rows = query.select(list(columns)).limit(len(names)).to_list()
        return {row["id"]: row for row in rows}

    def put(self, rows: pa.Table, vectors: NDArray[np.float32]) -> None:
        """Adds rows with vectors [n, d], or replaces those of the same ids, in one commit.

        Raises:
            InputError: a vector has NaN or infinity; then no row is written.
        """
        refuse_no_numbers(vectors, rows["id"])
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), self.dimension)
        table = conform(rows, self.schema).append_column("vector", column)
        with writing(self.folder):
            merge = self.table.merge_insert("id")
            merge = merge.when_matched_update_all().when_not_matched_insert_all()
            merge.execute(table.select(self.table.schema.names))

    def delete(self, where: str) -> int:
        """Deletes the rows that fit a filter, in one commit; returns their number."""
        # What fails after this is no fault of the filter.
        self.count(where)
        with writing(self.folder):
            return int(self.table.delete(parse(where, self.schema)).num_deleted_rows)

    def tend(self, finished: bool) -> None:
        """Merges fragments if there are many of them, and completes the indices if `finished`.

        In the end the table is on the disk.
        """
        if finished:
            self._create_vector_index()
        fragments = self.table.stats()["fragment_stats"]["num_fragments"]
        unindexed = max(index.num_unindexed_rows for index in self.table.list_indices())
        most_unindexed = max(UNINDEXED, len(self) // UNINDEXED_SHARE)
        with writing(self.folder):
            if fragments > FRAGMENTS or (finished and unindexed > most_unindexed):
                self.table.optimize(cleanup_older_than=KEPT)
                self._has_copy = self._is_new
            if finished and self._has_copy:
                self.table.optimize(cleanup_older_than=KEPT_OF_NEW)
                self._has_copy = False
            self._sync()
        if finished:
            self._is_new = False

    def _sync(self) -> None:
        """Brings the table to the disk, for which LanceDB does not wait.

        Of the files that are there, LanceDB changes JSON hints alone.
        """
        for path in (self.folder / TABLE_FOLDER).rglob("*"):
            if path.is_dir() or path.suffix == ".json" or path not in self._on_disk:
                sync(path)
                self._on_disk.add(path)
        sync(self.folder / TABLE_FOLDER)
        sync(self.folder)

    def _rows(self, query: Any, where: str | None, *score: str) -> list[Row]:
        """The rows that a query gives under a filter, without its columns of scores."""
        with self._filtering(where) as condition:
            if condition:
                query = query.where(condition, prefilter=True)
            table = query.select([*FIXED, *self.columns, *score]).to_arrow()
            return rows_of(table.drop_columns(score))

    @contextmanager
    def _filtering(self, where: str | None) -> Iterator[str | None]:
        """Gives the condition of a filter; an error of LanceDB becomes one line."""
        columns = self.schema
        condition = None
        if where is not None:
            condition = parse(where, columns)
        with as_read_error(self.folder):
            try:
                yield condition
            except ValueError as error:
                if where is None or not self._refuses(condition):
                    raise
                raise refusal(where, _reason(error), columns) from error

    def _refuses(self, condition: str | None) -> bool:
        """Whether LanceDB refuses a condition that it is given alone."""
        try:
            self.table.count_rows(condition)
        except ValueError:
            return True
        return False


def refuse_name(name: str, place: str) -> None:
    """Refuses a name that another column of an index can't have."""
    if name in FIXED or not NAME.fullmatch(name):
        raise InputError(
            f"{place}: column {name!r}: an index can't have another column of this name (id, text, "
            "vector are taken; a name begins with no underscore or asterisk, and has no dot, "
            "backtick, NUL or half of a surrogate pair); rename it in the file, or give it as id "
            f"if it tells the rows apart: --id {name} (in Python id_column={name!r})"
        )


def _same(row: Row, stored: Row | None, float_columns: Sequence[str]) -> bool:
    """Whether a row is stored as it is; 0.0 and -0.0 are two numbers here."""
    if stored is None or row != stored:
        return False
    return all(_signs(row[name]) == _signs(stored[name]) for name in float_columns)


def _float_columns(schema: pa.Schema) -> list[str]:
    """The columns of numbers that may be no whole numbers, or of lists of them."""
    names = []
    for field in schema:
        type_ = field.type
        if pa.types.is_list(type_):
            type_ = type_.value_type
        if pa.types.is_floating(type_):
            names.append(field.name)
    return names


def _signs(value: Any) -> list[float]:
    """The sign of each number of a cell, 1.0 or -1.0."""
    if value is None:
        return []
    if isinstance(value, float):
        return [copysign(1, value)]
    return [copysign(1, number) for number in value if number is not None]


class ReadError(InputError):
    """LanceDB or the disk failed while an index was read; the question was right."""

    damaged = False
    """Whether LanceDB says that a file of the index is missing or not whole."""


@contextmanager
def as_read_error(folder: Path, doing: str = "read") -> Iterator[None]:
    """Turns an error of LanceDB or of the disk, while an index is read, into one line."""
    try:
        yield
    except InputError:
        raise
    except BaseException as error:
        # LanceDB stops at some damaged files by a panic of Rust, which is no Exception.
        panicked = type(error).__name__ == "PanicException"
        if not panicked and not isinstance(error, ValueError | RuntimeError | OSError):
            raise
        problem = f"{folder}: it can't be {doing} ({_reason(error)})"
        if doing == "written":
            raise InputError(f"{problem}; rows of earlier commits stay") from error
        if not panicked and not DAMAGE.search(str(error)):
            raise ReadError(problem) from error
        damage = ReadError(f"{problem}; if it is damaged, remove it and make the index again")
        damage.damaged = True
        raise damage from error


def writing(folder: Path) -> AbstractContextManager[None]:
    """Turns an error of LanceDB or of the disk, while an index is written, into one line."""
    return as_read_error(folder, "written")


def _reason(error: BaseException) -> str:
    """What an error of LanceDB says, in a line, without the places in LanceDB's own code."""
    line = " ".join(str(error).split())
    return re.sub(r", /\S+\.rs:\d.*|^Invalid input, ", "", line).strip(" .")
