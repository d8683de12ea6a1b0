"""Compares the speed of exact search with that of its peers.

A search finds the ten rows nearest to a query among a million.

    python benchmarks/search.py [--rows N] [--dimension D] [--rounds N] [--threads N]

The peers are installed into the environment .benchmark/, as for benchmarks/run.py. All take turns
on the same vectors of length 1, and the rows that they give are compared with numpy's. isotune
reads its rows from the disk for each query, and the peers have all vectors in memory. Vectors are
normally distributed around some centres, so that they have near and far neighbours, as sentences
have.
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from machine import Noise, processor
from numpy.typing import NDArray
from rounds import Timing, in_turn, speedup, spread, table
from run import go_on_with_peers

Array = NDArray[np.float32]
Search = Callable[[Array], Sequence[int]]
"""A query [d] -> the numbers of the K nearest rows, in any order."""

K = 10
PACKAGES = ("numpy", "torch", "faiss-cpu", "usearch", "sentence-transformers", "lancedb")
CENTRES = 2000
PUT = 16_384  # rows put into the index at a time, as `isotune index` does


def unit(vectors: Array) -> Array:
    """Vectors scaled to length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def clustered(rows: int, dimension: int) -> Array:
    """Vectors around centres [N, d]."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((CENTRES, dimension), dtype=np.float32)
    vectors = random.standard_normal((rows, dimension), dtype=np.float32)
    for part in np.array_split(np.arange(rows), max(1, rows // 65_536)):
        vectors[part] += centres[random.integers(CENTRES, size=len(part))]
        vectors[part] = unit(vectors[part])
    return vectors


def isotune(vectors: Array, folder: str) -> Search:
    """The exact search of an index on disk."""
    import pyarrow as pa

    from isotune.use.search.store import Store

    store = Store(Path(folder), vectors.shape[1])
    for start in range(0, len(vectors), PUT):
        part = vectors[start : start + PUT]
        names = [str(start + row) for row in range(len(part))]
        store.put(pa.table({"id": names, "text": names}), part)
        store.tend(finished=False)
    store.tend(finished=True)
    return lambda query: [int(row["id"]) for row in store.nearest(query, K)]


def numpy(vectors: Array) -> Search:
    """All products, and a partition of them."""
    return lambda query: np.argpartition(vectors @ query, -K)[-K:].tolist()


def faiss(vectors: Array) -> Search:
    """The flat index of inner products."""
    import faiss as library

    index = library.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return lambda query: index.search(query[None], K)[1][0].tolist()


def usearch(vectors: Array) -> Search:
    """Exact search without an index."""
    from usearch.index import MetricKind, search

    return lambda query: [
        int(key) for key in search(vectors, query[None], K, MetricKind.IP, exact=True).keys.ravel()
    ]


def sentence_transformers(vectors: Array) -> Search:
    """`semantic_search` with dot products, the vectors as a torch tensor."""
    import torch
    from sentence_transformers.util import dot_score, semantic_search

    corpus = torch.from_numpy(vectors)

    def run(query: Array) -> list[int]:
        (hits,) = semantic_search(
            torch.from_numpy(query[None]), corpus, top_k=K, score_function=dot_score
        )
        return [hit["corpus_id"] for hit in hits]

    return run


def timed(search: Search, query: Array) -> Timing:
    """The time of a search in this process."""
    start = perf_counter()
    search(query)
    return Timing(perf_counter() - start, 0.0)


def main() -> None:
    """Installs the peers, measures, and prints the table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    go_on_with_peers()
    vectors = clustered(options.rows, options.dimension)
    random = np.random.default_rng(1)
    noise = Noise()
    with tempfile.TemporaryDirectory() as folder:
        contenders = {
            "numpy": numpy,
            "isotune": partial(isotune, folder=folder),
            "faiss": faiss,
            "usearch": usearch,
        }
        contenders["sentence-transformers"] = sentence_transformers
        searches = {name: make(vectors) for name, make in contenders.items()}
        shift = random.standard_normal(options.dimension, dtype=np.float32) / options.dimension**0.5
        (query,) = unit((vectors[random.integers(options.rows)] + 0.5 * shift)[None])
        truth = set(searches["numpy"](query))
        runs = {name: partial(timed, search, query) for name, search in searches.items()}
        timings = in_turn(runs, options.rounds, noise)
        walls = {name: [timing.wall for timing in rows] for name, rows in timings.items()}
        noise.spreads += map(spread, walls.values())
        columns = [
            "library",
            "milliseconds a query",
            "speed-up against numpy",
            "spread",
            "rows as numpy's",
        ]
        rows = []
        for name, times in walls.items():
            shared = len(truth & set(searches[name](query))) / K
            speeds = (
                f"{1000 * median(times):,.0f}",
                f"**{speedup(walls['numpy'], times):.2f}**",
                f"{spread(times):.0%}",
            )
            rows.append([name, *speeds, f"{shared:.1f}"])
        size = f"{options.rows:,} x {options.dimension}"
        print(f"{processor()}\n{size}, {options.threads} threads, k = {K}\n")
        print(table(columns, rows))
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    print(f"\n- Python {platform.python_version()}; {versions}\n{noise.verdict()}")


if __name__ == "__main__":
    main()
