"""Reads a file of text as tables, with all of its columns, a block of rows at a time.

A parquet file keeps its types. The columns of .csv and .tsv are text. The types of a .jsonl file's columns are those of
its first block of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from isotune.data import Sentence
from isotune.data.records import opened, parquet_batches, read_file
from isotune.data.rows import Record, blocks, checked_columns, text_value
from isotune.encoder.stream import PART
from isotune.errors import InputError


class Block(NamedTuple):
    """Some rows of a file, with all columns, and their texts; rows with a blank text are left out."""

    table: pa.Table
    texts: list[str]


def read_blocks(path: Path, columns: Mapping[str, str]) -> Iterator[Block]:
    """Streams a file in blocks of at most `PART` rows; there is at least one block, which may be empty.

    `columns` names the column of the text as {"sentence": column}, if it has no usual name.

    Raises:
        InputError: the file can't be read, the column of the text can't be told, or a column changes its type.
    """
    column = ""
    for numbers, table in _parquet(path) if path.suffix.lower() == ".parquet" else _records(path):
        column = column or _text_column(path, table.column_names, columns)
        values = table[column].to_pylist()
        texts = [text_value(text, column, f"{path}:{number}") for number, text in zip(numbers, values, strict=True)]
        if "" in texts:
            table = table.filter(pa.array([text != "" for text in texts]))
        yield Block(table, [text for text in texts if text])


def _text_column(path: Path, available: list[str], columns: Mapping[str, str]) -> str:
    """The column of the text."""
    groups = checked_columns(str(path), Sentence, available, columns)
    if len(groups) > 1:
        names = ", ".join(name for (name,) in groups)
        raise InputError(f"{path}: it has several texts in a row ({names}); name one with --columns sentence=COLUMN")
    return groups[0][0]


def _parquet(path: Path) -> Iterator[tuple[Sequence[int], pa.Table]]:
    """(row numbers, rows) of each block."""
    done = 0
    with opened(path) as file:
        for batch in parquet_batches(file, str(path), PART):
            yield range(done + 1, done + 1 + len(batch)), pa.Table.from_batches([batch])
            done += len(batch)


def _records(path: Path) -> Iterator[tuple[Sequence[int], pa.Table]]:
    """(line numbers, rows) of each block."""
    schema: pa.Schema | None = None
    for block in blocks(read_file(path), PART, lambda record: record[1].values()):
        numbers, rows = zip(*block, strict=True)
        table = _table(f"{path}:{numbers[0]}-{numbers[-1]}", rows, schema)
        schema = table.schema
        yield numbers, table
    if schema is None:
        raise InputError(f"{path}: nothing in it but blank lines or a header")


def _table(place: str, rows: Sequence[Record], schema: pa.Schema | None) -> pa.Table:
    """The table of these records; `schema` is that of the first block."""
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    if schema:
        if new := [name for name in names if name not in schema.names]:
            raise InputError(f"{place}: a column {new[0]!r} that the first {PART:,} rows don't have")
        names = schema.names
    columns: dict[str, Any] = {}
    for name in names:
        try:
            columns[name] = pa.array([row.get(name) for row in rows], schema and schema.field(name).type)
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            raise InputError(
                f"{place}: the values of column {name!r} have no common type ({str(error).splitlines()[0]})"
            ) from None
    return pa.table(columns)
