"""Files of vectors that are written block by block equal files written at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotune.use.bulk.vector_file import VECTOR_FILES, count_rows


@pytest.mark.parametrize("blocks", [[], [3], [9, 1], [1000] * 12], ids=str)
def test_an_npy_file_written_in_blocks_equals_one_written_at_once(blocks: list[int], tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(sum(blocks), 5)).astype(np.float32)
    path, whole = tmp_path / "v.npy", tmp_path / "w.npy"
    np.save(whole, vectors)
    with path.open("wb") as file, VECTOR_FILES[".npy"](file, pa.schema([]), 5) as write:
        for block in np.split(vectors, np.cumsum(blocks)[:-1]) if blocks else []:
            write(pa.table({}), block)
    assert path.read_bytes() == whole.read_bytes()
    assert count_rows(path) == len(vectors)
    np.testing.assert_array_equal(np.load(path, mmap_mode="r" if blocks else None), vectors)


def test_a_parquet_file_has_a_row_group_for_each_block(tmp_path: Path) -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    rows = pa.table({"id": pa.array([5, 6, 7, 8], pa.int16()), "text": ["a", "é", "", "d"]})
    path = tmp_path / "v.parquet"
    with path.open("wb") as file, VECTOR_FILES[".parquet"](file, rows.schema, 3) as write:
        write(rows.slice(0, 2), vectors[:2])
        write(rows.slice(2), vectors[2:])
    assert pq.ParquetFile(path).num_row_groups == 2
    assert count_rows(path) == 4
    table = pq.read_table(path)
    assert table.drop_columns("vector").equals(rows)
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist()), vectors)
