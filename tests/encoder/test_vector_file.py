"""Files of vectors that are written part by part equal files written at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from isotune.encoder.vector_file import VECTOR_FILES


@pytest.mark.parametrize("parts", [[], [3], [9, 1], [1000] * 12], ids=str)
def test_an_npy_file_written_in_parts_equals_one_written_at_once(parts: list[int], tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(sum(parts), 5)).astype(np.float32)
    path, whole = tmp_path / "v.npy", tmp_path / "w.npy"
    np.save(whole, vectors)
    with path.open("wb") as file, VECTOR_FILES[".npy"](file, 5) as write:
        for part in np.split(vectors, np.cumsum(parts)[:-1]) if parts else []:
            write([""] * len(part), part)
    assert path.read_bytes() == whole.read_bytes()
    np.testing.assert_array_equal(np.load(path, mmap_mode="r" if parts else None), vectors)


def test_a_parquet_file_has_a_row_group_for_each_part(tmp_path: Path) -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    path = tmp_path / "v.parquet"
    with path.open("wb") as file, VECTOR_FILES[".parquet"](file, 3) as write:
        write(["a", "é"], vectors[:2])
        write(["", "d"], vectors[2:])
    assert pq.ParquetFile(path).num_row_groups == 2
    table = pq.read_table(path)
    assert table["sentence"].to_pylist() == ["a", "é", "", "d"]
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist()), vectors)
