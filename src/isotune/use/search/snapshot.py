"""The rows of an index as they were after one commit.

A search reads the table several times: vectors, the rows that fit a filter, words, and the contents of what it gives.
Meanwhile another process may add rows, or merge fragments, which gives rows other numbers. So a search reads one
snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotune.use.search.filters import parse, refusal, sql

ROW = "_rowid"  # LanceDB's own number of a row
FIXED = ("id", "text", "vector")
BATCH = 8192  # rows read at a time; more take longer


class Snapshot:
    """The table of an index at one version.

    Attributes:
        version: the number of the commit.
        columns: the columns besides id, text and vector.
    """

    def __init__(self, table: Any) -> None:
        """Takes over a table of LanceDB, which stays at its present version."""
        self.version = int(table.version)
        table.checkout(self.version)
        self.table = table
        self.columns = [name for name in table.schema.names if name not in FIXED]
        self._rows = int(table.count_rows())

    def __len__(self) -> int:
        return self._rows

    def vectors(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """The numbers [b] and vectors [b, d] of all rows, in the same order each time, batch by batch."""
        query = self.table.search().select(["vector"]).with_row_id(True).limit(max(len(self), 1))
        for batch in query.to_batches(BATCH):
            vectors = batch["vector"].flatten().to_numpy().reshape(len(batch), -1)
            yield batch[ROW].to_numpy().astype(np.int64), vectors

    def nearest(self, vector: NDArray[np.float32], k: int, where: str | None = None) -> list[int]:
        """The numbers of the k rows nearest to a vector [d] that fit a filter, the nearest first.

        LanceDB compares the vector with all rows, block by block. So memory does not grow with the rows.
        """
        return self.numbers(self.by_vector(vector, k).bypass_vector_index(), "_distance", where)

    def by_vector(self, vector: NDArray[np.float32], k: int) -> Any:
        """LanceDB's query of the k rows nearest to a vector [d]."""
        query = self.table.search(vector, vector_column_name="vector").distance_type("dot")
        return query.limit(k).with_row_id(True)

    def by_words(self, query: str, k: int, where: str | None) -> list[int]:
        """The numbers of the k rows whose words fit a query best (BM25)."""
        search = self.table.search(query, query_type="fts", fts_columns="text").limit(k).with_row_id(True)
        return self.numbers(search, "_score", where)

    def numbers(self, query: Any, score: str, where: str | None) -> list[int]:
        """The numbers of the rows that a query of LanceDB gives among those that fit a filter, the best first."""
        with filtering(where, self.columns) as condition:
            if condition:
                query = query.where(condition, prefilter=True)
            return [int(row) for row in query.select(["id", score]).to_arrow()[ROW].to_pylist()]

    def rows(self, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        """The rows with these numbers, vectors included: {number: {column: value}}."""
        rows = self.table.take_row_ids(sorted(set(numbers))).with_row_id().to_arrow().to_pylist() if numbers else []
        return {row.pop(ROW): row for row in rows}

    def first(self, k: int, where: str | None) -> list[dict[str, Any]]:
        """The first k rows that fit a filter, without vectors."""
        query = self.table.search().select(["id", "text", *self.columns]).limit(k)
        with filtering(where, self.columns) as condition:
            rows: list[dict[str, Any]] = (query.where(condition) if condition else query).to_list()
        return rows

    def count(self, where: str) -> int:
        """How many rows fit a filter."""
        with filtering(where, self.columns) as condition:
            return int(self.table.count_rows(condition))


@contextmanager
def filtering(where: str | None, columns: Sequence[str]) -> Iterator[str | None]:
    """Gives a filter as SQL of our own, and turns LanceDB's error about it, such as a wrong type, into one line.

    Raises:
        InputError: the filter can't be read, or LanceDB refuses it.
    """
    known = ["id", "text", *columns]
    condition = None if where is None else sql(parse(where, known))
    try:
        yield condition
    except (ValueError, RuntimeError) as error:
        if where is None:
            raise
        reason = re.sub(r"(, /\S+\.rs:\d.*|\n.*)|^Invalid input, ", "", str(error), flags=re.DOTALL).strip(" .")
        raise refusal(where, reason, known) from error
