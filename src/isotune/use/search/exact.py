"""Exact nearest neighbours by cosine: products in float32, a block at a time, so that memory stays small."""

import numpy as np
import torch
from numpy.typing import NDArray

from isotune.kernels.cpu.float32 import fast_float32

ROWS = 65_536  # of a block of products; with 256 queries they take 67 MB


def nearest(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The k largest cosines [n, k] of queries [n, d] with rows [N, d], all of length 1, and the rows' numbers."""
    cosines, rows = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    for start in range(0, len(vectors), ROWS):
        with fast_float32(), torch.no_grad():
            products = torch.from_numpy(queries) @ torch.from_numpy(vectors[start : start + ROWS]).T
        best, places = products.topk(min(k, products.shape[1]))
        both = torch.cat([cosines, best], 1)
        cosines, order = both.topk(min(k, both.shape[1]))
        rows = torch.cat([rows, places + start], 1).gather(1, order)
    return cosines.numpy(), rows.numpy()
