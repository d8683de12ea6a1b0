"""The rows of an index on disk: a table of LanceDB with an id, a text, a vector and any other columns.

A change of rows is one commit: it is there completely or not at all. A query gives whole rows, as one commit has left
them, and sees the last commit of any process. LanceDB writes a new fragment of the table with each commit, and `tend`
merges fragments when there are many of them, so that reading stays fast.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isotune.encoder.stream import refuse_no_numbers
from isotune.errors import InputError, require_extra
from isotune.files import sync
from isotune.use.search.filters import parse, refusal
from isotune.use.tables import conform, rows_of, words

# What LanceDB says of files that are missing or not whole.
DAMAGE = re.compile(
    "corrupt|not found: |was not found|file size is too small|failed to decode|failed to fill whole buffer|"
    "invalid range|invalid seek|footer|magic|internal error",
    re.IGNORECASE,
)
Row = dict[str, Any]  # {column: value} of a row

FIXED = ("id", "text", "vector")
TABLE, TABLE_FOLDER = "rows", "rows.lance"
# Fragments are merged when there are more of them.
FRAGMENTS = 16
# Rows are put into the text index when more than so many, and more than a hundredth of all rows,
# are not in it; until then such rows are searched one by one. On an Intel Xeon (model 207), 500
# rows took 15 ms of processor time in place of 4, and 10,000 rows took 105 ms in place of 7. To put
# a row into the index of 10,000 rows takes a tenth of a second, and of 100,000 more than one second.
UNINDEXED = 500
UNINDEXED_SHARE = 100
# Of a longer query, the first words are looked up. In 10,000 rows, 256 words take 19 ms of
# processor time with the text index, and the 8,000 words of a long page some seconds without it.
QUERY_WORDS = 256
QUERY_CHARACTERS = 2048
# LanceDB's reads may be so many bytes ahead of its searches. Its usual 2 GB make a search of a million rows take 0.6 GB
# more, and no less time.
READ_AHEAD = 2**25
# Another process may still read a version of the table of this age.
KEPT = timedelta(minutes=10)
# The name of another column; LanceDB fails at other names, or can't filter by them.
NAME = re.compile(r"(?![_*])[^.`\0\ud800-\udfff]+")


def lancedb() -> Any:
    """The module lancedb, which takes a second to import, set up to log errors only and to read little ahead."""
    os.environ.setdefault("LANCEDB_LOG", "error")
    os.environ.setdefault("LANCE_DEFAULT_IO_BUFFER_SIZE", str(READ_AHEAD))
    require_extra("search", "lancedb")
    import lancedb

    return lancedb


class Store:
    """The table of an index. Threads may share it."""

    def __init__(self, folder: Path, dimension: int) -> None:
        self.folder = folder
        # Each call looks for changes that other processes have made.
        database = lancedb().connect(folder, read_consistency_interval=timedelta(0))
        self._on_disk: set[Path] = set()  # files of the table
        self.dimension = dimension
        # Only commits make files of rows, so a table that has such files and no commit is damaged.
        if any((folder / TABLE_FOLDER).glob("_versions/*.manifest")) or any(
            (folder / TABLE_FOLDER).glob("data/*")
        ):
            with reading(folder):
                self.table = database.open_table(TABLE)
            if self.table.schema.field("vector").type.list_size != dimension:
                raise InputError(
                    f"{folder}: its vectors don't have the {dimension} features that it describes"
                )
        else:  # no table, or a folder without any commit, which a killed process or a full disk has left
            types = pa.string(), pa.string(), pa.list_(pa.float32(), dimension)
            fields = [
                pa.field(name, type_, nullable=False)
                for name, type_ in zip(FIXED, types, strict=True)
            ]
            with writing(folder):
                self.table = database.create_table(TABLE, schema=pa.schema(fields))
        if not any(index.columns == ["text"] for index in self.table.list_indices()):
            # Words are cut by Unicode's rules, so that languages without spaces have words too. Positions are left
            # out: only phrases need them, and merging fragments has failed with them.
            words = lancedb().index.FTS(
                base_tokenizer="icu", remove_stop_words=False, with_position=False
            )
            with writing(folder):
                self.table.create_index("text", config=words)

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

    def nearest(self, vector: NDArray[np.float32], k: int, where: str | None = None) -> list[Row]:
        """The k rows nearest to a vector [d] that fit a filter."""
        query = self.table.search(vector, vector_column_name="vector").distance_type("dot").limit(k)
        return self._rows(query.bypass_vector_index(), where, "_distance")

    def by_words(self, query: str, k: int, where: str | None = None) -> list[Row]:
        """The k rows whose words fit a query best (BM25).

        All of the query is text. LanceDB would take a query that is a str apart, and look for a phrase in quotes.
        Of a long query, the first `QUERY_WORDS` words in the first `QUERY_CHARACTERS` characters are looked up.
        """
        first_words = query[:QUERY_CHARACTERS].split()[:QUERY_WORDS]
        words = lancedb().query.MatchQuery(" ".join(first_words), "text")
        return self._rows(self.table.search(words).limit(k), where, "_score")

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

    def take_columns(self, schema: pa.Schema) -> None:
        """Gives the table the columns of a schema that it lacks.

        A column without values has the type null. With its first value it is made anew, of another type: the table is
        without it for one commit.
        """
        known = dict(zip(self.schema.names, self.schema.types, strict=True))
        new = [field for field in schema if field.name not in known]
        empty = []
        for field in schema:
            if (
                field.type != pa.null()
                and (type_ := known.get(field.name, field.type)) != field.type
            ):
                if type_ != pa.null():
                    raise InputError(
                        f"{self.folder}: column {field.name!r} has {words(type_)}, and {words(field.type)} can't be "
                        "added to them"
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
        """Those of some rows without vectors that are not in the table as they are, and how many of these ids are."""
        rows = conform(rows, self.schema)
        quoted = ", ".join(
            "'{}'".format(name.replace("'", "''")) for name in rows["id"].to_pylist()
        )
        query = (
            self.table.search()
            .where(f"id IN ({quoted})")
            .select(rows.column_names)
            .limit(len(rows))
        )
        known = {row["id"]: row for row in query.to_list()} if len(self) else {}
        new = [
            repr(known.get(row["id"])) != repr(row) for row in rows.to_pylist()
        ]  # which tells -0.0 from 0.0
        rows = rows.filter(pa.array(new, pa.bool_()))
        return rows, sum(name in known for name in rows["id"].to_pylist())

    def put(self, rows: pa.Table, vectors: NDArray[np.float32]) -> None:
        """Adds rows with vectors [n, d], or replaces those of the same ids: one commit; none if a vector has NaN."""
        refuse_no_numbers(vectors, rows["id"])
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), self.dimension)
        table = (
            conform(rows, self.schema)
            .append_column("vector", column)
            .select(self.table.schema.names)
        )
        with writing(self.folder):
            self.table.merge_insert(
                "id"
            ).when_matched_update_all().when_not_matched_insert_all().execute(table)

    def delete(self, where: str) -> int:
        """Deletes the rows that fit a filter, in one commit; returns their number."""
        self.count(where)  # so that what fails below is no fault of the filter
        with writing(self.folder):
            return int(self.table.delete(parse(where, self.schema)).num_deleted_rows)

    def tend(self, finished: bool) -> None:
        """Merges fragments if there are many of them, and completes the text index if `finished`.

        In the end the table is on the disk, for which LanceDB does not wait. Of its files, it changes JSON hints alone.
        """
        fragments = self.table.stats()["fragment_stats"]["num_fragments"]
        unindexed = max(index.num_unindexed_rows for index in self.table.list_indices())
        most_unindexed = max(UNINDEXED, len(self) // UNINDEXED_SHARE)
        with writing(self.folder):
            if fragments > FRAGMENTS or (finished and unindexed > most_unindexed):
                self.table.optimize(cleanup_older_than=KEPT)
            for path in (self.folder / TABLE_FOLDER).rglob("*"):
                if path.is_dir() or path.suffix == ".json" or path not in self._on_disk:
                    sync(path)
                    self._on_disk.add(path)
            sync(self.folder / TABLE_FOLDER)
            sync(self.folder)

    def _rows(self, query: Any, where: str | None, *score: str) -> list[Row]:
        with self._filtering(where) as condition:
            if condition:
                query = query.where(condition, prefilter=True)
            return rows_of(
                query.select([*FIXED, *self.columns, *score]).to_arrow().drop_columns(score)
            )

    @contextmanager
    def _filtering(self, where: str | None) -> Iterator[str | None]:
        columns = self.schema
        condition = None if where is None else parse(where, columns)
        with reading(self.folder):
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
            f"{place}: column {name!r}: an index can't have another column of this name (id, text, vector are taken; "
            "a name begins with no underscore or asterisk, and has no dot, backtick, NUL or half of a surrogate pair); "
            "rename it in the file, or give it as id if it tells the rows apart"
        )


class ReadError(InputError):
    """LanceDB or the disk failed while an index was read; the question was right."""

    damaged = False
    """Whether LanceDB says that a file of the index is missing or not whole."""


@contextmanager
def reading(folder: Path, doing: str = "read") -> Iterator[None]:
    """Turns an error of LanceDB or of the disk, while an index is read, into one line."""
    try:
        yield
    except (InputError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # LanceDB stops at some damaged files by a panic of Rust, which is no Exception.
        panicked = not isinstance(error, Exception)
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


def _reason(error: BaseException) -> str:
    """What an error of LanceDB says, in a line, without the places in LanceDB's own code."""
    line = " ".join(str(error).split())
    return re.sub(r", /\S+\.rs:\d.*|^Invalid input, ", "", line).strip(" .")


def writing(folder: Path) -> AbstractContextManager[None]:
    """Turns an error of LanceDB or of the disk, while an index is written, into one line."""
    return reading(folder, "written")
