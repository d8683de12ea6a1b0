"""One file of text becomes one file of vectors, with memory for a few blocks of rows.

A parquet file keeps its types. Columns of other files get the types that `isotune.use.tables` finds for them.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isotune.data import Sentence
from isotune.data.records import opened, parquet_batches, read_file
from isotune.data.rows import Record, checked_columns, tell_blank, text_value
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import PART, Advance
from isotune.errors import InputError
from isotune.use.tables import typed

VECTOR = "vector"  # the name of the vectors' column
SUFFIXES = (".npy", ".parquet")

Vectors = NDArray[np.float32]
Source = tuple[str, pa.Schema, Iterator[pa.Table]]
"""The column of the text, the schema, and the rows with a text, some at a time."""


def write_npy(file: BinaryIO, dimension: int, blocks: Iterable[Vectors]) -> int:
    """Writes vectors [n, dimension] block by block; returns their number."""
    rows = 0
    _write_header(file, 0, dimension)
    for vectors in blocks:
        file.write(vectors.astype("<f4", order="C", copy=False).data)
        rows += len(vectors)
    file.seek(0)
    _write_header(file, rows, dimension)  # numpy leaves room for any number
    return rows


def write_parquet(
    file: BinaryIO, schema: pa.Schema, dimension: int, blocks: Iterable[tuple[pa.Table, Vectors]]
) -> int:
    """Writes blocks of n rows with vectors [n, dimension]; returns the number of rows."""
    rows, field = 0, pa.field(VECTOR, pa.list_(pa.float32(), dimension))
    with pq.ParquetWriter(file, schema.append(field)) as writer:
        for table, vectors in blocks:
            column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), dimension)
            writer.write_table(table.append_column(field, column))
            rows += len(vectors)
    return rows


def _write_header(file: BinaryIO, rows: int, dimension: int) -> None:
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    )


def encode_file(
    encoder: Encoder,
    source: Path,
    target: Path,
    columns: Mapping[str, str],
    normalize: bool,
    advance: Advance | None = None,
) -> int:
    """Writes a parquet file of a file's rows, in order and without blank texts, with `encode_files`' options."""
    with (_parquet if source.suffix.lower() == ".parquet" else _records)(source, columns) as (
        column,
        schema,
        tables,
    ):
        if VECTOR in schema.names:
            raise InputError(
                f"{source}: it has a column {VECTOR!r} already; leave that out, the vectors get this name"
            )
        rows = schema.empty_table()  # those that were read and not yet written

        def texts() -> Iterator[str]:
            nonlocal rows
            for table in tables:
                rows = pa.concat_tables([rows, table])
                yield from (text.strip() for text in table[column].to_pylist())

        def encoded() -> Iterator[tuple[pa.Table, Vectors]]:
            nonlocal rows
            for part, vectors in encoder.encode_parts(
                texts(), normalize=normalize, advance=advance
            ):
                yield rows.slice(0, len(part)), vectors
                rows = rows.slice(len(part))

        with target.open("wb") as file:
            return write_parquet(file, schema, encoder.dimension, encoded())


def _text_column(path: Path, available: list[str], columns: Mapping[str, str]) -> str:
    groups = checked_columns(str(path), Sentence, available, columns)
    if len(groups) > 1:
        names = ", ".join(name for (name,) in groups)
        raise InputError(
            f"{path}: it has several texts in a row ({names}); name one by columns, as sentence=COLUMN"
        )
    return groups[0][0]


@contextmanager
def _parquet(path: Path, columns: Mapping[str, str]) -> Iterator[Source]:
    with opened(path) as file:
        schema = next(parquet_batches(file, str(path), PART)).schema
    column = _text_column(path, schema.names, columns)

    def tables() -> Iterator[pa.Table]:
        done, blank = 0, []
        with opened(path) as file:
            for batch in parquet_batches(file, str(path), PART):
                table = pa.Table.from_batches([batch])
                texts = enumerate(table[column].to_pylist(), done + 1)
                filled = [
                    text_value(text, column, f"{path}:{number}") != "" for number, text in texts
                ]
                blank += [done + row for row, is_filled in enumerate(filled, 1) if not is_filled]
                done += len(table)
                yield table.filter(pa.array(filled, pa.bool_())) if not all(filled) else table
        tell_blank(str(path), blank)

    yield column, schema, tables()


@contextmanager
def _records(path: Path, columns: Mapping[str, str]) -> Iterator[Source]:
    records = read_file(path)
    first = next(records, None)
    if first is None:
        raise InputError(f"{path}: nothing in it but blank lines or a header")
    column = _text_column(path, list(first[1]), columns)

    def filled() -> Iterator[tuple[str, Record]]:
        blank = []
        for number, record in chain([first], records):
            place = f"{path}:{number}"
            if text_value(record.get(column), column, place):
                yield place, record
            else:
                blank.append(number)
        tell_blank(str(path), blank)

    known = pa.schema([(name, pa.string() if name == column else pa.null()) for name in first[1]])
    with typed(filled(), known) as (schema, tables):
        yield column, schema, tables
