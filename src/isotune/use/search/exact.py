"""Exact nearest neighbours by cosine: products in float32, a block at a time, so that memory stays small."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.kernels.cpu.float32 import fast_float32

QUERIES, ROWS = 256, 65_536  # of a block of products, which takes 67 MB


def nearest(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k largest cosines [n, k] of queries [n, d] with rows [N, d], all of length 1, and the rows' numbers."""
    cosines, rows = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    for start in range(0, len(vectors), ROWS):
        products = _products(queries, vectors[start : start + ROWS])
        best, places = products.topk(min(k, products.shape[1]))
        both = torch.cat([cosines, best], 1)
        cosines, order = both.topk(min(k, both.shape[1]))
        rows = torch.cat([rows, places + start], 1).gather(1, order)
    return cosines.numpy(), rows.numpy()


def pairs(
    vectors: NDArray[np.float32], least: float
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:
    """All pairs of rows i < j of [N, d] with at least this cosine, in parts: i, j and the cosines, each [m]."""
    for first in range(0, len(vectors), QUERIES):
        for start in range(first, len(vectors), ROWS):
            cosines = _products(vectors[first : first + QUERIES], vectors[start : start + ROWS])
            i, j = (cosines >= least).nonzero(as_tuple=True)
            is_later = j + start > i + first
            i, j = i[is_later], j[is_later]
            yield (i + first).numpy(), (j + start).numpy(), cosines[i, j].numpy()


def _products(queries: NDArray[np.float32], rows: NDArray[np.float32]) -> Tensor:
    with fast_float32(), torch.no_grad():
        return torch.from_numpy(queries) @ torch.from_numpy(rows).T
