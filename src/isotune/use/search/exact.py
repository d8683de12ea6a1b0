"""Exact nearest neighbours by cosine: products in float32, a block at a time, so that memory stays small."""

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
    found = [_nearest(block, torch.from_numpy(vectors), k) for block in torch.from_numpy(queries).split(QUERIES)]
    cosines, rows = (torch.cat(blocks) for blocks in zip(*found, strict=True))
    return cosines.numpy(), rows.numpy()


def _nearest(queries: Tensor, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
    cosines, rows = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    for start in range(0, len(vectors), ROWS):
        with fast_float32(), torch.no_grad():
            products = queries @ vectors[start : start + ROWS].T
        best, places = products.topk(min(k, products.shape[1]))
        both = torch.cat([cosines, best], 1)
        cosines, order = both.topk(min(k, both.shape[1]))
        rows = torch.cat([rows, places + start], 1).gather(1, order)
    return cosines, rows
