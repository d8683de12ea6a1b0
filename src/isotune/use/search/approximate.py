"""Approximate search of a large index: only the parts near a query, of vectors in 8 bits (IVF_SQ of LanceDB).

Graphs (IVF_HNSW_SQ) take several times as long to build, and find no more.

Its recall is measured against exact search when the index is built: the share of the ten rows that are really nearest
among the ten that it gives. The queries are rows of the index, and a row does not count among its own neighbours.
"""

from __future__ import annotations

import logging
from math import isqrt
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isotune.use.search import exact
from isotune.use.search.store import Row, Store, lancedb

logger = logging.getLogger(__name__)

PARTS = 100  # that are searched, and more if they have fewer than k rows that fit a filter
REFINED = 4  # times k rows are compared by their whole vectors
QUERIES, K = 100, 10  # of the measurement
LEAST_RECALL = 0.95  # below it, a warning says so


def nearest(store: Store, vector: NDArray[np.float32], k: int, where: str | None = None) -> list[Row]:
    """About the k rows nearest to a vector [d] that fit a filter, the nearest first."""
    query = store.by_vector(vector, k).minimum_nprobes(PARTS).maximum_nprobes(0)  # 0: no maximum
    return store.rows(query.refine_factor(REFINED), where, "_distance")


def build(store: Store) -> dict[str, Any]:
    """Builds the index over all rows and measures it: {"rows": their number, "recall": from 0 to 1}."""
    parts = isqrt(len(store))  # so that finding the nearest parts takes about as long as searching one of them
    store.table.create_index("vector", config=lancedb().index.IvfSq(distance_type="dot", num_partitions=parts))
    recall = _recall(store)
    if recall < LEAST_RECALL:
        logger.warning("The approximate search has only a recall@%d of %.3f.", K, recall)
    return {"rows": len(store), "recall": recall}


def _recall(store: Store) -> float:
    """The recall among the first `K`, with about `QUERIES` rows that are evenly spaced over the index."""
    step = max(1, len(store) // QUERIES)
    parts, chosen, done = [], [], 0
    for names, vectors in store.vectors():
        parts.append(names)
        chosen.append(vectors[-done % step :: step])
        done += len(vectors)
    ids, queries = pa.chunked_array(parts), np.concatenate(chosen)
    _, places = exact.nearest(queries, (vectors for _, vectors in store.vectors()), K + 1)
    shares = []
    for number, query in enumerate(queries):
        own = ids[number * step].as_py()
        others = [name for name in ids.take(places[number]).to_pylist() if name != own][:K]
        found = [row["id"] for row in nearest(store, query, K + 1) if row["id"] != own][:K]
        shares.append(len({*others} & {*found}) / max(1, len(others)))
    return float(np.mean(shares))
