"""Exact nearest neighbours by the product of vectors, in blocks, so that memory stays small.

A block of products is computed in bfloat16 where the processor has instructions for it, and in float32 otherwise. A
bfloat16 product is wrong by at most a known bound, so every row whose product may be among the k largest is a
candidate. Candidates are computed again in float32. The result is that of float32 alone, in half the time or less: the
products of one query with many rows take as long as the rows take to come out of memory.

Most products are never sorted. The k largest of a block are at least as large as the k-th largest maximum of its
groups, and at least as large as the k-th best row so far; only rows above both are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.kernels.float32 import fast_float32

ROWS = 65_536  # rows of a block: fewer are slower
QUERIES = 64  # queries of a block
GROUPS = 4  # groups of a block for each of the k nearest, and at least LEAST_GROUPS
LEAST_GROUPS = 64
CANDIDATES = 65_536  # products that are computed again at a time
ROUNDING = 2.0**-9  # the relative error of a number rounded to bfloat16
SUMMATION = 1e-5  # a bound of the error of summing products of two vectors of length 1 in float32


class Vectors:
    """Vectors of length 1 (or 0), in memory, to be searched by cosine.

    Attributes:
        vectors: float32 [N, d].
        in_bfloat16: whether products are computed in bfloat16 first.
    """

    def __init__(self, vectors: NDArray[np.float32], in_bfloat16: bool | None = None) -> None:
        """Takes vectors [N, d], without a copy if they can be written. Without `in_bfloat16`, the processor decides."""
        self.vectors = torch.from_numpy(np.require(vectors, np.float32, ["C", "W"]))  # torch warns of read-only memory
        # Without instructions for it, bfloat16 is slower than float32.
        capabilities = torch.cpu.get_capabilities()
        has_bfloat16 = bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
        self.in_bfloat16 = has_bfloat16 if in_bfloat16 is None else in_bfloat16

    def __len__(self) -> int:
        return len(self.vectors)

    @torch.no_grad()
    def nearest(
        self, queries: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The k rows with the largest cosine to each query, the largest first; of equal rows, the first.

        Takes queries [n, d] of length 1, and which rows are allowed [N], all by default. Returns cosines [n, k] and row
        numbers [n, k], with fewer columns where fewer rows are allowed.
        """
        mask = None if allowed is None else torch.from_numpy(allowed)
        k = min(k, len(self) if mask is None else int(mask.sum()))
        if len(queries) == 0 or k == 0:
            return np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        parts = [self._nearest(part, k, mask) for part in torch.from_numpy(queries).split(QUERIES)]
        cosines, rows = (torch.cat(columns).numpy() for columns in zip(*parts, strict=True))
        return cosines, rows

    @torch.no_grad()
    def pairs(self, least: float) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]]:
        """All pairs of rows i < j with at least this cosine, in parts: i, j and the cosines, each [m]."""
        for start in range(0, len(self), QUERIES):
            queries = self.vectors[start : start + QUERIES]
            rounded, error = self._rounded(queries)
            for block, products in self._products(rounded, start):
                query, row = (products >= least - error).nonzero(as_tuple=True)
                later = row + block > query + start
                query, row = query[later], row[later] + block
                cosines = self._cosines(queries, query, row)
                near = cosines >= least
                if near.any():
                    yield (query[near] + start).numpy(), row[near].numpy(), cosines[near].numpy()

    def _nearest(self, queries: Tensor, k: int, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """The result of `nearest` for one block of queries [n, d]."""
        n = len(queries)
        best = torch.full((n, k), -torch.inf)
        best_rows = torch.zeros((n, k), dtype=torch.int64)
        rounded, error = self._rounded(queries)
        for block, products in self._products(rounded):  # [n, b]
            if allowed is not None:
                products = products.masked_fill(~allowed[block : block + products.shape[1]], -torch.inf)
            least = torch.maximum(best[:, -1:] - error, _lower_bound(products, k) - 2 * error)  # [n, 1]
            candidates = products >= least
            if allowed is not None:
                candidates &= allowed[block : block + products.shape[1]]
            query, row = candidates.nonzero(as_tuple=True)  # [m]
            if len(query):
                cosines = self._cosines(queries, query, row + block)
                best, best_rows = _merge(best, best_rows, query, row + block, cosines)
        return best, best_rows

    def _rounded(self, queries: Tensor) -> tuple[Tensor, float]:
        """Queries as blocks of products take them, and the bound of the error of such a product.

        The bound is |q - q'| |v| + |q'| |v - v'| for the rounded vectors q' and v' (Cauchy and Schwarz), and the
        rounding of the product.
        """
        if not self.in_bfloat16:
            return queries, SUMMATION
        rounded = queries.bfloat16()
        error = float((queries - rounded.float()).norm(dim=1).max()) + self._rounded_rows[1] + ROUNDING
        return rounded, 1.01 * error + SUMMATION  # a rounded vector may be a little longer than 1

    def _products(self, queries: Tensor, start: int = 0) -> Iterator[tuple[int, Tensor]]:
        """The products of queries [n, d] with all rows from `start` on: the first row of a block, and [n, b]."""
        rows = self._rounded_rows[0] if self.in_bfloat16 else self.vectors
        with nullcontext() if self.in_bfloat16 else fast_float32():
            for block in range(start, len(rows), ROWS):
                yield block, queries @ rows[block : block + ROWS].T

    def _cosines(self, queries: Tensor, query: Tensor, row: Tensor) -> Tensor:
        """The products in float32 of pairs of a query and a row [m]."""
        parts = zip(query.split(CANDIDATES), row.split(CANDIDATES), strict=True)
        return torch.cat([(queries[i] * self.vectors[j]).sum(1) for i, j in parts])

    @cached_property
    def _rounded_rows(self) -> tuple[Tensor, float]:
        """The rows in bfloat16 [N, d], and the largest distance of a row from its rounded row."""
        rows = torch.empty(self.vectors.shape, dtype=torch.bfloat16)
        error = 0.0
        for part, rounded in zip(self.vectors.split(ROWS), rows.split(ROWS), strict=True):
            rounded.copy_(part)
            error = max(error, float((part - rounded.float()).norm(dim=1).max()))
        return rows, error


def _lower_bound(products: Tensor, k: int) -> Tensor:
    """A number [n, 1] that at least k products of each row of [n, b] reach; minus infinity if there are few."""
    groups = max(GROUPS * k, LEAST_GROUPS)
    size = products.shape[1] // groups
    if not size:
        return torch.full((len(products), 1), -torch.inf)
    maxima: Tensor = products[:, : groups * size].unflatten(1, (groups, size)).amax(2).float()  # [n, groups]
    return maxima.topk(k).values[:, -1:]


def _merge(best: Tensor, best_rows: Tensor, query: Tensor, row: Tensor, cosines: Tensor) -> tuple[Tensor, Tensor]:
    """The k best of each query's best so far [n, k] and its new candidates, given as pairs of a query and a row [m]."""
    n, k = best.shape
    counts = torch.bincount(query, minlength=n)
    places = torch.arange(len(query)) - (counts.cumsum(0) - counts)[query]  # within the query's candidates
    wide = torch.full((n, k + int(counts.max())), -torch.inf)
    rows = torch.zeros(wide.shape, dtype=torch.int64)
    wide[:, :k], rows[:, :k] = best, best_rows
    wide[query, k + places], rows[query, k + places] = cosines, row
    order = wide.sort(dim=1, descending=True, stable=True).indices[:, :k]  # stable: the earlier row of equal ones
    return wide.gather(1, order), rows.gather(1, order)
