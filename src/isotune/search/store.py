"""The rows of an index on disk: a table of LanceDB with an id, a text, a vector and any other columns.

A change of rows is one commit: it is there completely or not at all. LanceDB writes a new fragment of the table with
each commit, and `tend` merges fragments when there are many of them, so that reading stays fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isotune.errors import InputError

TABLE = "rows"
ROW = "_rowid"  # LanceDB's own number of a row
FIXED = ("id", "text", "vector")
# Fragments are merged when there are more of them, and rows are put into the text index when more of them are not in
# it; until then such rows are searched one by one.
FRAGMENTS, UNINDEXED = 16, 10_000
# Another process may still read a version of the table of this age.
KEPT = timedelta(minutes=10)
BATCH = 65_536  # rows read at a time
LONGEST_FILTER = 1000  # characters; a sum of a thousand terms overflows the stack of LanceDB's parser: the process ends


def lancedb() -> Any:
    """The module lancedb, which takes a second to import.

    Raises:
        InputError: it is not installed.
    """
    try:
        import lancedb
    except ImportError as error:
        raise InputError(f"an index needs LanceDB: pip install 'isotune[search]' ({error})") from error
    return lancedb


class Store:
    """The table of an index."""

    def __init__(self, folder: Path, dimension: int) -> None:
        """Opens the table in a folder, or makes an empty one, for vectors of this dimension."""
        # Each call looks for changes that other processes have made.
        database = lancedb().connect(folder, read_consistency_interval=timedelta(0))
        self.dimension = dimension
        if TABLE in database.list_tables().tables:
            self.table = database.open_table(TABLE)
        else:
            types = pa.string(), pa.string(), pa.list_(pa.float32(), dimension)
            fields = [pa.field(name, type_, nullable=False) for name, type_ in zip(FIXED, types, strict=True)]
            self.table = database.create_table(TABLE, schema=pa.schema(fields))
        if not any(index.columns == ["text"] for index in self.table.list_indices()):
            # Words are cut by Unicode's rules, so that languages without spaces have words too. Positions are left
            # out: only phrases need them, and merging fragments has failed with them.
            words = lancedb().index.FTS(base_tokenizer="icu", remove_stop_words=False, with_position=False)
            self.table.create_index("text", config=words)

    def __len__(self) -> int:
        return int(self.table.count_rows())

    @property
    def version(self) -> int:
        """The number of the last commit."""
        return int(self.table.version)

    @property
    def columns(self) -> list[str]:
        """The columns besides id, text and vector."""
        return [name for name in self.table.schema.names if name not in FIXED]

    def to_table(self, ids: Sequence[str], texts: Sequence[str], columns: Sequence[Mapping[str, object]]) -> pa.Table:
        """Rows without their vectors, with the types of the table's columns; new columns are added to the table.

        Raises:
            InputError: a column can't have this name, or a value does not fit the type of its column.
        """
        for name in dict.fromkeys(name for values in columns for name in values):
            if name in FIXED or name.startswith("_") or "." in name or not name:
                raise InputError(
                    f"column {name!r}: an index can't have another column of this name (id, text and vector are taken; "
                    "a name has no dot and begins with no underscore); rename it in the file"
                )
            if name not in self.table.schema.names:
                fitting = _array(name, [values.get(name) for values in columns], None).type
                self.table.add_columns([pa.field(name, pa.string() if pa.types.is_null(fitting) else fitting)])
        arrays = {"id": _array("id", ids, pa.string()), "text": _array("text", texts, pa.string())}
        for name in self.columns:
            arrays[name] = _array(name, [values.get(name) for values in columns], self.table.schema.field(name).type)
        return pa.table(arrays)

    def with_ids(self, ids: Sequence[str]) -> dict[str, dict[str, object]]:
        """The rows that have one of these ids, without vectors: {id: {column: value}}."""
        quoted = ", ".join("'{}'".format(name.replace("'", "''")) for name in ids)
        query = self.table.search().where(f"id IN ({quoted})").select(["id", "text", *self.columns])
        return {row["id"]: row for row in query.limit(len(ids)).to_list()}

    def put(self, rows: pa.Table, vectors: NDArray[np.float32]) -> None:
        """Adds rows, or replaces those whose ids are there already, with their vectors [n, d]: one commit."""
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), self.dimension)
        table = rows.append_column("vector", column).select(self.table.schema.names)
        self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(table)

    def delete(self, where: str) -> int:
        """Deletes the rows that fit a filter, in one commit; returns their number."""
        with self.filtering(where):
            return int(self.table.delete(f"({where})").num_deleted_rows)

    def tend(self, finished: bool) -> None:
        """Merges fragments if there are many of them, and completes the text index if `finished`."""
        fragments = self.table.stats()["fragment_stats"]["num_fragments"]
        unindexed = max(index.num_unindexed_rows for index in self.table.list_indices())
        if fragments > FRAGMENTS or (finished and unindexed > UNINDEXED):
            self.table.optimize(cleanup_older_than=KEPT)

    def vectors(self, rows: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The numbers [b] and vectors [b, d] of the first rows, batch by batch."""
        query = self.table.search().select(["vector"]).with_row_id(True).limit(max(rows, 1))
        for batch in query.to_batches(BATCH):
            vectors = batch["vector"].flatten().to_numpy().reshape(-1, self.dimension)
            yield batch[ROW].to_numpy().astype(np.int64), vectors

    def matching(self, where: str) -> NDArray[np.int64]:
        """The numbers of the rows that fit a filter."""
        query = self.table.search().where(f"({where})").select([ROW]).with_row_id(True).limit(max(len(self), 1))
        with self.filtering(where):
            numbers: NDArray[np.int64] = query.to_arrow()[ROW].to_numpy().astype(np.int64)
        return numbers

    def by_words(self, query: str, k: int, where: str | None) -> list[int]:
        """The numbers of the k rows whose words fit a query best (BM25)."""
        search = self.table.search(query, query_type="fts", fts_columns="text").limit(k).with_row_id(True)
        with self.filtering(where):
            if where:
                search = search.where(f"({where})", prefilter=True)
            return [int(row) for row in search.select(["id", "_score"]).to_arrow()[ROW].to_pylist()]

    def rows(self, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        """The rows with these numbers, vectors included: {number: {column: value}}."""
        rows = self.table.take_row_ids(sorted(set(numbers))).with_row_id().to_arrow().to_pylist() if numbers else []
        return {row.pop(ROW): row for row in rows}

    def first(self, k: int, where: str | None) -> list[dict[str, Any]]:
        """The first k rows that fit a filter, without vectors."""
        query = self.table.search().select(["id", "text", *self.columns]).limit(k)
        with self.filtering(where):
            rows: list[dict[str, Any]] = (query.where(f"({where})") if where else query).to_list()
        return rows

    def count(self, where: str | None) -> int:
        """How many rows fit a filter."""
        with self.filtering(where):
            return int(self.table.count_rows(f"({where})" if where else None))

    @contextmanager
    def filtering(self, where: str | None) -> Iterator[None]:
        """Turns LanceDB's error about a filter into one line, and refuses a filter that would end the process."""
        if where and len(where) > LONGEST_FILTER:
            raise InputError(f"filter {where[:30]!r}...: {len(where):,} characters; give at most {LONGEST_FILTER:,}")
        try:
            yield
        except (ValueError, RuntimeError) as error:
            if where is None:
                raise
            reason = re.sub(r"(, /\S+\.rs:\d.*|Valid fields are.*|\n.*)", "", str(error), flags=re.DOTALL)
            reason = re.sub(r"^Invalid input, |Error parsing statement: .*\(sql parser error: ", "", reason).strip(" .")
            known = ", ".join(["id", "text", *self.columns])
            raise InputError(
                f"filter {where!r}: {reason}. Its columns are {known}; text stands in single quotes"
            ) from error


def _array(name: str, values: Sequence[object], type_: pa.DataType | None) -> pa.Array:
    """Values as a column of a type, or of the type that fits them."""
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kind = f"its type in the index, {type_}" if type_ is not None else "one type"
        raise InputError(f"column {name!r}: its values don't fit {kind} ({' '.join(str(error).split())})") from error
