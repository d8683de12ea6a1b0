"""Vectors that are kept in a file."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from isotune.data.kept_vectors import map_vectors, write_vectors
from isotune.errors import InputError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "vectors.npy"


def vectors() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)


def test_vectors_come_back_to_the_last_bit(path: Path) -> None:
    write_vectors(path, (7, 3), [vectors()[:4], vectors()[4:]])
    mapped = map_vectors(path)
    np.testing.assert_array_equal(mapped, vectors())
    np.testing.assert_array_equal(np.load(path), vectors())
    mapped[0] = 9
    np.testing.assert_array_equal(map_vectors(path), vectors())


def test_a_file_is_whole_or_not_there(path: Path) -> None:
    def stopped() -> Iterator[NDArray[np.float32]]:
        yield vectors()[:4]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_vectors(path, (7, 3), stopped())
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("place", [0, 10, 130, -1, -5])
def test_a_changed_byte_is_found(path: Path, place: int) -> None:
    write_vectors(path, (7, 3), [vectors()])
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"vectors.npy: .* damaged .* remove the file"):
        map_vectors(path)


@pytest.mark.parametrize("size", [0, 3, 100, 200])
def test_a_cut_file_is_found(path: Path, size: int) -> None:
    write_vectors(path, (7, 3), [vectors()])
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match="damaged"):
        map_vectors(path)
