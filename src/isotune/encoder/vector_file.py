"""Writes vectors to a file, part by part, so that memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

Write: TypeAlias = Callable[[Sequence[str], NDArray[np.float32]], object]
"""Writes one part: n sentences and their vectors [n, d]."""


@contextmanager
def _npy(file: BinaryIO, dimension: int) -> Iterator[Write]:
    """Writes the vectors alone, [N, dimension] float32."""
    rows = 0

    def header() -> None:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)})

    def write(sentences: Sequence[str], vectors: NDArray[np.float32]) -> None:
        nonlocal rows
        rows += len(vectors)
        file.write(vectors.astype("<f4", order="C", copy=False).data)

    header()
    yield write
    file.seek(0)
    header()  # again, with the number of rows; numpy leaves room for any number


@contextmanager
def _parquet(file: BinaryIO, dimension: int) -> Iterator[Write]:
    """Writes the columns sentence and vector, and each part as a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema({"sentence": pa.string(), "vector": pa.list_(pa.float32(), dimension)})
    with pq.ParquetWriter(file, schema) as writer:

        def write(sentences: Sequence[str], vectors: NDArray[np.float32]) -> None:
            column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), dimension)
            writer.write_table(pa.table([pa.array(sentences, pa.string()), column], schema=schema))

        yield write


VECTOR_FILES: Mapping[str, Callable[[BinaryIO, int], AbstractContextManager[Write]]] = MappingProxyType(
    {".npy": _npy, ".parquet": _parquet}
)
"""Maps a suffix to the context manager that takes an open file and the number of features, and gives a `Write`."""
