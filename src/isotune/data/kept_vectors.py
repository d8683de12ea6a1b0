"""Vectors of a text that are costly to compute, such as those of a large teacher, kept in a file.

The file is an .npy file of float32 that numpy maps into memory, with the CRC-32 of the vectors
behind them. The name of the file has a hash of everything that the vectors depend on, so a file
never changes. A file is written completely or not at all.
"""

import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isotune.errors import as_input_error
from isotune.files import atomic_write

CHECKSUM_BYTES = 4


def write_vectors(path: Path, shape: tuple[int, int], parts: Iterable[NDArray[np.float32]]) -> None:
    """Writes vectors [n, d] of this shape, which come in parts, in their order.

    Raises:
        InputError: the file can't be written, because the disk is full, say.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    checksum = 0
    with atomic_write(path) as unfinished, unfinished.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            content = part.astype("<f4").tobytes()
            checksum = zlib.crc32(content, checksum)
            file.write(content)
        file.write(checksum.to_bytes(CHECKSUM_BYTES, "little"))


def map_vectors(path: Path) -> NDArray[np.float32]:
    """Maps the vectors [n, d] of a file into memory; a change of the array changes no file.

    Raises:
        InputError: the file is damaged.
    """
    problem = f"{path}: the vectors in it are damaged"
    # numpy raises many kinds of errors for a damaged header.
    with as_input_error(Exception, problem, "; remove the file, and they are computed again"):
        vectors: NDArray[np.float32] = np.load(path, mmap_mode="c")
        with path.open("rb") as file:
            file.seek(-CHECKSUM_BYTES, 2)
            checksum = int.from_bytes(file.read(), "little")
        if zlib.crc32(vectors.data) != checksum:
            raise ValueError("their checksum is wrong")
    return vectors
