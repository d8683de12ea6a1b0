"""Compares the speed of exact search with that of its peers: the ten nearest of a million vectors.

    python benchmarks/search.py [--rows N] [--dimension D] [--rounds N] [--threads N]

The peers are installed into the environment .benchmark/, as for benchmarks/run.py. All take turns on the same vectors
of length 1, and the rows that they give are compared with numpy's. Vectors are normally distributed around some
centres, so that they have near and far neighbours, as sentences have.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
from machine import Noise, processor
from numpy.typing import NDArray
from rounds import Timing, in_turn, speedup, spread
from run import ENVIRONMENT, install

Array = NDArray[np.float32]
Search = Callable[
    [Array], NDArray[np.int64]
]  # queries [n, d] -> the numbers of the K nearest rows [n, K], in any order
K = 10
QUERIES = (1, 10, 50)
PACKAGES = ("numpy", "torch", "faiss-cpu", "usearch", "sentence-transformers", "lancedb")
ONE_BY_ONE = "LanceDB"  # takes a query at a time, so it is left out of the largest number of queries
CENTRES = 2000


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


def isotune(vectors: Array) -> Search:
    """The exact search of an index in memory."""
    from isotune.use.search.exact import Vectors

    searched = Vectors(vectors)
    return lambda queries: searched.nearest(queries, K)[1]


def numpy(vectors: Array) -> Search:
    """All products, and a partition of them."""
    return lambda queries: np.argpartition(queries @ vectors.T, -K, axis=1)[:, -K:]


def faiss(vectors: Array) -> Search:
    """The flat index of inner products."""
    import faiss as library

    index = library.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return lambda queries: index.search(queries, K)[1]


def usearch(vectors: Array) -> Search:
    """Exact search without an index."""
    from usearch.index import MetricKind, search

    def run(queries: Array) -> NDArray[np.int64]:
        keys = search(vectors, queries, K, MetricKind.IP, exact=True).keys
        return np.asarray(keys, np.int64).reshape(len(queries), K)

    return run


def sentence_transformers(vectors: Array) -> Search:
    """`semantic_search` with dot products, the vectors as a torch tensor."""
    import torch
    from sentence_transformers.util import dot_score, semantic_search

    corpus = torch.from_numpy(vectors)

    def run(queries: Array) -> NDArray[np.int64]:
        hits = semantic_search(torch.from_numpy(queries), corpus, top_k=K, score_function=dot_score)
        return np.array([[hit["corpus_id"] for hit in row] for row in hits])

    return run


def lancedb(vectors: Array, folder: str) -> Search:
    """The flat search of a table on disk, a query at a time."""
    import lancedb as library
    import pyarrow as pa

    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    table = library.connect(folder).create_table("t", pa.table({"i": np.arange(len(vectors)), "vector": column}))

    def run(queries: Array) -> NDArray[np.int64]:
        found = [table.search(query).distance_type("dot").limit(K).select(["i", "_distance"]) for query in queries]
        return np.array([rows.to_arrow()["i"].to_pylist() for rows in found])

    return run


def timed(search: Search, queries: Array) -> Timing:
    """The time of a search."""
    start, cpu = perf_counter(), process_time()
    search(queries)
    return Timing(perf_counter() - start, process_time() - cpu)


def agreement(rows: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    """The share of the true rows [n, K] among those that a search gave [n, K]."""
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(rows.tolist(), truth.tolist(), strict=True)]))


def main() -> None:
    """Installs the peers, measures, and prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    if Path(sys.prefix) != ENVIRONMENT:
        install()
        python = str(ENVIRONMENT / "bin" / "python")
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
        os.execv(python, [python, *sys.argv])
    vectors = clustered(options.rows, options.dimension)
    random = np.random.default_rng(1)
    noise = Noise()
    with tempfile.TemporaryDirectory() as folder:
        contenders = {"numpy": numpy, "isotune": isotune, "faiss": faiss, "usearch": usearch}
        contenders |= {"sentence-transformers": sentence_transformers, ONE_BY_ONE: partial(lancedb, folder=folder)}
        searches = {name: make(vectors) for name, make in contenders.items()}
        print(f"{processor()}\n{options.rows:,} x {options.dimension}, {options.threads} threads, k = {K}\n")
        print(
            "| queries at a time | library | milliseconds a query | speed-up against numpy | spread | rows as numpy's |"
        )
        print("|---|---|---|---|---|---|")
        for count in QUERIES:
            chosen = vectors[random.integers(options.rows, size=count)]
            shift = random.standard_normal(chosen.shape, dtype=np.float32) / options.dimension**0.5
            queries = unit(chosen + 0.5 * shift)
            truth = searches["numpy"](queries)
            runs = {name: partial(timed, search, queries) for name, search in searches.items()}
            if count == max(QUERIES):
                del runs[ONE_BY_ONE]
            timings = in_turn(runs, options.rounds, noise)
            walls = {name: [timing.wall for timing in rows] for name, rows in timings.items()}
            for name, times in walls.items():
                noise.spreads.append(spread(times))
                cells = [str(count), name, f"{1000 * median(times) / count:,.1f}"]
                cells += [f"**{speedup(walls['numpy'], times):.2f}**", f"{spread(times):.0%}"]
                cells += [f"{agreement(searches[name](queries), truth):.4f}"]
                print(f"| {' | '.join(cells)} |", flush=True)
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    print(f"\n- Python {platform.python_version()}; {versions}\n{noise.verdict()}")


if __name__ == "__main__":
    main()
