"""Writes vectors to a file, a block of rows at a time, so that memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

VECTOR = "vector"  # the name of the vectors' column

Write: TypeAlias = Callable[[pa.Table, NDArray[np.float32]], object]
"""Writes n rows and their vectors [n, d]."""


@contextmanager
def _npy(file: BinaryIO, schema: pa.Schema, dimension: int) -> Iterator[Write]:
    """Writes the vectors alone, [N, dimension] float32."""
    rows = 0

    def header() -> None:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)})

    def write(table: pa.Table, vectors: NDArray[np.float32]) -> None:
        nonlocal rows
        rows += len(vectors)
        file.write(vectors.astype("<f4", order="C", copy=False).data)

    header()
    yield write
    file.seek(0)
    header()  # again, with the number of rows; numpy leaves room for any number


@contextmanager
def _parquet(file: BinaryIO, schema: pa.Schema, dimension: int) -> Iterator[Write]:
    """Writes the rows' columns and the vectors, and each block as a row group."""
    field = pa.field(VECTOR, pa.list_(pa.float32(), dimension))
    with pq.ParquetWriter(file, schema.append(field)) as writer:

        def write(table: pa.Table, vectors: NDArray[np.float32]) -> None:
            column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), dimension)
            writer.write_table(table.append_column(field, column))

        yield write


VECTOR_FILES: Mapping[str, Callable[[BinaryIO, pa.Schema, int], AbstractContextManager[Write]]] = MappingProxyType(
    {".npy": _npy, ".parquet": _parquet}
)
"""Maps a suffix to the context manager that takes an open file, the schema of the rows and the number of features, and
gives a `Write`."""


def count_rows(path: Path) -> int:
    """The number of vectors in a file of one of these suffixes."""
    if path.suffix == ".npy":
        return len(np.load(path, mmap_mode="r"))
    rows: int = pq.read_metadata(path).num_rows
    return rows
