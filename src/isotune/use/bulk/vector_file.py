"""One file of text becomes one file of vectors, with memory for a few blocks of rows.

A parquet file keeps its types. Columns of other files get the types that `isotune.use.tables` finds
for them.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isotune.data import Sentence
from isotune.data.records import opened, parquet_batches, read_file
from isotune.data.rows import Record, checked_columns, tell_blank, text_value
from isotune.encoder.encoder import Encoder
from isotune.encoder.stream import PART, Advance, Vectors, encode_stream
from isotune.errors import InputError
from isotune.use.quantization import FLOAT32, NumberFormat
from isotune.use.tables import to_tables

# The name of the vectors' column.
VECTOR = "vector"
SUFFIXES = (".npy", ".parquet")


class Texts(NamedTuple):
    """The rows of a file that have a text."""

    column: str
    """The column of the text."""
    schema: pa.Schema
    tables: Iterator[pa.Table]
    """The rows, some at a time."""


class Encoded(NamedTuple):
    """What a file of vectors holds."""

    rows: int
    cut: int
    """How many of the texts were cut to the encoder's limit."""


def write_npy(
    file: BinaryIO,
    dimension: int,
    blocks: Iterable[Vectors],
    number_format: NumberFormat = FLOAT32,
) -> int:
    """Writes vectors [n, dimension] block by block; returns their number."""
    rows = 0
    _write_header(file, 0, dimension, number_format)
    for vectors in blocks:
        file.write(number_format.written(vectors).data)
        rows += len(vectors)
    # The header has room for any number of rows.
    file.seek(0)
    _write_header(file, rows, dimension, number_format)
    return rows


def write_parquet(
    file: BinaryIO,
    schema: pa.Schema,
    dimension: int,
    blocks: Iterable[tuple[pa.Table, Vectors]],
    number_format: NumberFormat = FLOAT32,
) -> int:
    """Writes blocks of n rows with vectors [n, dimension]; returns the number of rows."""
    rows = 0
    field = pa.field(VECTOR, number_format.arrow_type(dimension))
    with pq.ParquetWriter(file, schema.append(field)) as writer:
        for table, vectors in blocks:
            numbers = number_format.written(vectors)
            column = pa.FixedSizeListArray.from_arrays(numbers.ravel(), numbers.shape[1])
            writer.write_table(table.append_column(field, column))
            rows += len(vectors)
    return rows


def _write_header(file: BinaryIO, rows: int, dimension: int, number_format: NumberFormat) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(number_format.dtype),
        "fortran_order": False,
        "shape": (rows, number_format.width(dimension)),
    }
    np.lib.format.write_array_header_1_0(file, header)


def encode_rows(
    encoder: Encoder,
    source: Path,
    target: Path,
    columns: Mapping[str, str],
    normalize: bool,
    advance: Advance | None = None,
    number_format: NumberFormat = FLOAT32,
) -> Encoded:
    """Writes a parquet file of a file's rows, in order and without blank texts.

    Bytes are of vectors of length 1. The options are those of `encode_files`.
    """
    with _texts_of(source, columns) as (column, schema, tables):
        if VECTOR in schema.names:
            raise InputError(
                f"{source}: it has a column {VECTOR!r} already; leave that out, the vectors get "
                "this name"
            )
        # The rows that were read and not yet written.
        rows = schema.empty_table()
        cut = 0

        def texts() -> Iterator[str]:
            nonlocal rows
            for table in tables:
                rows = pa.concat_tables([rows, table])
                for text in table[column].to_pylist():
                    yield text.strip()

        def encoded() -> Iterator[tuple[pa.Table, Vectors]]:
            nonlocal rows, cut
            for part in encode_stream(encoder, texts(), normalize, advance):
                count = len(part.sentences)
                cut += part.cut
                yield rows.slice(0, count), part.vectors
                rows = rows.slice(count)

        with target.open("wb") as file:
            count = write_parquet(file, schema, encoder.dimension, encoded(), number_format)
    return Encoded(count, cut)


def _texts_of(path: Path, columns: Mapping[str, str]) -> AbstractContextManager[Texts]:
    if path.suffix.lower() == ".parquet":
        return _parquet_texts(path, columns)
    return _record_texts(path, columns)


def _text_column(path: Path, available: list[str], columns: Mapping[str, str]) -> str:
    groups = checked_columns(str(path), Sentence, available, columns)
    if len(groups) > 1:
        names = ", ".join(name for (name,) in groups)
        raise InputError(
            f"{path}: it has several texts in a row ({names}); name one by columns, as "
            "sentence=COLUMN"
        )
    return groups[0][0]


@contextmanager
def _parquet_texts(path: Path, columns: Mapping[str, str]) -> Iterator[Texts]:
    with opened(path) as file:
        schema = next(parquet_batches(file, str(path), PART)).schema
    column = _text_column(path, schema.names, columns)

    def tables() -> Iterator[pa.Table]:
        done = 0
        blank = []
        with opened(path) as file:
            for batch in parquet_batches(file, str(path), PART):
                table = pa.Table.from_batches([batch])
                filled = []
                for number, text in enumerate(table[column].to_pylist(), done + 1):
                    has_text = text_value(text, column, f"{path}:{number}") != ""
                    filled.append(has_text)
                    if not has_text:
                        blank.append(number)
                done += len(table)
                if not all(filled):
                    table = table.filter(pa.array(filled, pa.bool_()))
                yield table
        tell_blank(str(path), blank)

    yield Texts(column, schema, tables())


@contextmanager
def _record_texts(path: Path, columns: Mapping[str, str]) -> Iterator[Texts]:
    records = read_file(path)
    first = next(records, None)
    if first is None:
        raise InputError(f"{path}: nothing in it but blank lines or a header")
    names = list(first[1])
    column = _text_column(path, names, columns)

    def filled() -> Iterator[tuple[str, Record]]:
        blank = []
        for number, record in chain([first], records):
            place = f"{path}:{number}"
            if text_value(record.get(column), column, place):
                yield place, record
            else:
                blank.append(number)
        tell_blank(str(path), blank)

    # The types of the other columns are found in the records.
    types = dict.fromkeys(names, pa.null())
    types[column] = pa.string()
    with to_tables(filled(), pa.schema(types)) as (schema, tables):
        yield Texts(column, schema, tables)
