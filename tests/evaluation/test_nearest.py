"""Exact neighbours against numpy's sort of all products."""

import numpy as np
import pytest
from numpy.typing import NDArray

from isotune.evaluation import vectors as module
from isotune.evaluation.vectors import nearest

Array = NDArray[np.float32]


def unit(rows: int, dimension: int = 32, seed: int = 0) -> Array:
    vectors: Array = np.random.default_rng(seed).standard_normal(
        (rows, dimension), dtype=np.float32
    )
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("rows", "k"), [(4321, 10), (4321, 1), (30, 10), (4321, 1300), (0, 10)])
def test_the_nearest_rows_are_those_of_a_sort_of_all_products(
    rows: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, queries = unit(rows), unit(20, seed=1)
    monkeypatch.setattr(module, "PRODUCTS", 20_000)  # blocks of some queries
    products = queries.astype(np.float64) @ vectors.astype(np.float64).T
    expected = np.argsort(-products, axis=1)[:, :k]
    cosines, numbers = nearest(queries, vectors, k)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_allclose(cosines, np.take_along_axis(products, expected, 1), atol=1e-6)
