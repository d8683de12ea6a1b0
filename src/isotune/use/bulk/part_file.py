"""Encodes one file of text into one file of vectors, with memory for a few blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import pyarrow as pa

from isotune.encoder.stream import Advance, StreamEncoder
from isotune.errors import InputError
from isotune.use.bulk.tables import read_blocks
from isotune.use.bulk.vector_file import VECTOR, VECTOR_FILES


def encode_file(
    encoder: StreamEncoder,
    source: Path,
    target: Path,
    *,
    suffix: str,
    columns: Mapping[str, str],
    normalize: bool,
    advance: Advance | None,
) -> None:
    """Writes the vectors of a file's rows, in their order. A parquet file gets the other columns too.

    Rows with a blank text are left out.

    Args:
        encoder: encodes the texts.
        source: a file of text.
        target: the file to write.
        suffix: the format of the target, see `VECTOR_FILES`.
        columns: names the column of the text as {"sentence": column}, if it has no usual name.
        normalize: scale each vector to length 1.
        advance: is told of progress.

    Raises:
        InputError: the source can't be read or has a column "vector" already.
    """
    blocks = read_blocks(source, columns)
    first = next(blocks)
    schema = first.table.schema
    if VECTOR in schema.names:
        raise InputError(f"{source}: it has a column {VECTOR!r} already; leave that out, the vectors get this name")
    rows = schema.empty_table()  # those that were read and not yet written

    def texts() -> Iterator[str]:
        nonlocal rows
        for block in chain([first], blocks):
            rows = pa.concat_tables([rows, block.table])
            yield from block.texts

    with target.open("wb") as file, VECTOR_FILES[suffix](file, schema, encoder.dimension) as write:
        for part, vectors in encoder.encode_parts(texts(), normalize=normalize, advance=advance):
            write(rows.slice(0, len(part)), vectors)
            rows = rows.slice(len(part))
