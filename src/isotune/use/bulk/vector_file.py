"""One file of text becomes one file of vectors, with memory for a few blocks of rows.

A parquet file keeps its types. The columns of .csv and .tsv are text. The types of a .jsonl file's columns are those of
its first block of rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isotune.data import Sentence
from isotune.data.records import opened, parquet_batches, read_file
from isotune.data.rows import Record, blocks, checked_columns, text_value
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import PART, Advance
from isotune.errors import InputError

VECTOR = "vector"  # the name of the vectors' column
SUFFIXES = (".npy", ".parquet")

Vectors = NDArray[np.float32]


def write_vectors(
    file: BinaryIO, suffix: str, schema: pa.Schema, dimension: int, blocks: Iterable[tuple[pa.Table, Vectors]]
) -> int:
    """Writes blocks of n rows and their vectors [n, dimension], one after the other; returns the number of all rows.

    Memory does not grow with the rows. With the suffix .npy the file has the vectors alone; with .parquet it has the
    rows' columns too, and a row group for each block.
    """
    rows = 0
    if suffix == ".npy":
        _write_header(file, 0, dimension)
        for _, vectors in blocks:
            file.write(vectors.astype("<f4", order="C", copy=False).data)
            rows += len(vectors)
        file.seek(0)
        _write_header(file, rows, dimension)  # numpy leaves room for any number
        return rows
    field = pa.field(VECTOR, pa.list_(pa.float32(), dimension))
    with pq.ParquetWriter(file, schema.append(field)) as writer:
        for table, vectors in blocks:
            column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), dimension)
            writer.write_table(table.append_column(field, column))
            rows += len(vectors)
    return rows


def _write_header(file: BinaryIO, rows: int, dimension: int) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)})


def encode_file(
    encoder: Encoder,
    source: Path,
    target: Path,
    *,
    suffix: str,
    columns: Mapping[str, str],
    normalize: bool,
    advance: Advance | None,
) -> int:
    """Writes the vectors of a file's rows, in their order; returns their number.

    Rows with a blank text are left out. The options are those of `encode_files`.
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

    def encoded() -> Iterator[tuple[pa.Table, Vectors]]:
        nonlocal rows
        for part, vectors in encoder.encode_parts(texts(), normalize=normalize, advance=advance):
            yield rows.slice(0, len(part)), vectors
            rows = rows.slice(len(part))

    with target.open("wb") as file:
        return write_vectors(file, suffix, schema, encoder.dimension, encoded())


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
