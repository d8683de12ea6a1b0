"""Encodes one file of text into one file of vectors, with memory for a few blocks of rows.

A parquet file keeps its types. The columns of .csv and .tsv are text. The types of a .jsonl file's columns are those of
its first block of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from isotune.data import Sentence
from isotune.data.records import opened, parquet_batches, read_file
from isotune.data.rows import Record, blocks, checked_columns, text_value
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import PART, Advance
from isotune.errors import InputError
from isotune.use.bulk.vector_file import VECTOR, VECTOR_FILES


def encode_file(
    encoder: Encoder,
    source: Path,
    target: Path,
    *,
    suffix: str,
    columns: Mapping[str, str],
    normalize: bool,
    advance: Advance | None,
) -> None:
    """Writes the vectors of a file's rows, in their order. A parquet file gets the other columns too.

    Rows with a blank text are left out. The suffix is one of `VECTOR_FILES`; the other options are those of a `Job`.

    Raises:
        InputError: the source can't be read or has a column "vector" already.
    """
    tables = _tables(source, columns)
    first, first_texts = next(tables)
    schema = first.schema
    if VECTOR in schema.names:
        raise InputError(f"{source}: it has a column {VECTOR!r} already; leave that out, the vectors get this name")
    rows = schema.empty_table()  # those that were read and not yet written

    def texts() -> Iterator[str]:
        nonlocal rows
        for table, block in chain([(first, first_texts)], tables):
            rows = pa.concat_tables([rows, table])
            yield from block

    with target.open("wb") as file, VECTOR_FILES[suffix](file, schema, encoder.dimension) as write:
        for part, vectors in encoder.encode_parts(texts(), normalize=normalize, advance=advance):
            write(rows.slice(0, len(part)), vectors)
            rows = rows.slice(len(part))


def _tables(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[pa.Table, list[str]]]:
    """Some rows of a file at a time, at most `PART`: all of their columns, and their texts; blank texts are left out.

    There is at least one table, which may be empty.
    """
    column = ""
    for numbers, table in _parquet(path) if path.suffix.lower() == ".parquet" else _records(path):
        column = column or _text_column(path, table.column_names, columns)
        values = table[column].to_pylist()
        texts = [text_value(text, column, f"{path}:{number}") for number, text in zip(numbers, values, strict=True)]
        if "" in texts:
            table = table.filter(pa.array([text != "" for text in texts]))
        yield table, [text for text in texts if text]


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
