"""Exact neighbours and pairs against numpy's sort of all products."""

import numpy as np
import pytest
from numpy.typing import NDArray

from isotune.use.search import exact
from isotune.use.search.exact import nearest, pairs

Array = NDArray[np.float32]


def unit(rows: int, dimension: int = 32, seed: int = 0) -> Array:
    vectors: Array = np.random.default_rng(seed).standard_normal((rows, dimension), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(("rows", "k"), [(4321, 10), (4321, 1), (30, 10), (4321, 1300), (0, 10)])
def test_the_nearest_rows_are_those_of_a_sort_of_all_products(
    rows: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, queries = unit(rows), unit(20, seed=1)
    monkeypatch.setattr(exact, "ROWS", 1000)
    products = queries.astype(np.float64) @ vectors.astype(np.float64).T
    expected = np.argsort(-products, axis=1)[:, :k]
    cosines, numbers = nearest(queries, vectors, k)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_allclose(cosines, np.take_along_axis(products, expected, 1), atol=1e-6)


def test_pairs_are_all_pairs_with_at_least_this_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "QUERIES", 70)
    monkeypatch.setattr(exact, "ROWS", 400)
    vectors = unit(1500, 8)
    first, second = np.triu_indices(1500, 1)
    near = (vectors[first] * vectors[second]).sum(1) >= 0.9
    i, j, cosines = (np.concatenate(columns) for columns in zip(*pairs(vectors, 0.9), strict=True))
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == set(
        zip(first[near].tolist(), second[near].tolist(), strict=True)
    )
    assert len(i) == near.sum() > 100
    np.testing.assert_allclose(cosines, (vectors[i] * vectors[j]).sum(1), atol=1e-6)
    assert list(pairs(unit(0), 0.5)) == []
