"""Exact search against numpy's sort of all products."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from isotune.use.search import exact
from isotune.use.search.exact import Vectors

Array = NDArray[np.float32]


def unit(rows: int, dimension: int = 32, seed: int = 0) -> Array:
    vectors = np.random.default_rng(seed).standard_normal((rows, dimension), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "ROWS", 1000)
    monkeypatch.setattr(exact, "QUERIES", 7)
    monkeypatch.setattr(exact, "CANDIDATES", 50)


both_types = pytest.mark.parametrize("in_bfloat16", [False, True])


@both_types
@pytest.mark.parametrize(("rows", "k"), [(4321, 10), (4321, 1), (30, 10), (4321, 300)])
def test_the_nearest_rows_are_those_of_a_sort_of_all_products(in_bfloat16: bool, rows: int, k: int) -> None:
    vectors, queries = unit(rows), unit(20, seed=1)
    products = queries.astype(np.float64) @ vectors.astype(np.float64).T
    expected = np.argsort(-products, axis=1)[:, :k]
    cosines, numbers = Vectors(vectors, in_bfloat16).nearest(queries, k)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_allclose(cosines, np.take_along_axis(products, expected, 1), atol=1e-6)


@both_types
def test_the_rows_that_bfloat16_cannot_tell_apart_are_told_apart(in_bfloat16: bool) -> None:
    query = unit(1)
    vectors = query + 1e-4 * unit(3000, seed=1)  # all cosines differ by less than bfloat16's last digit
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    exact_products = (vectors.astype(np.float64) @ query[0].astype(np.float64)).tolist()
    cosines, numbers = Vectors(vectors, in_bfloat16).nearest(query, 10)
    assert cosines[0, -1] >= np.sort(exact_products)[-10] - 2e-7  # float32 itself can't tell nearer ones apart
    assert len(set(numbers[0].tolist())) == 10


@both_types
def test_of_equal_rows_the_first_are_nearest(in_bfloat16: bool) -> None:
    vectors = np.repeat(unit(1), 2500, axis=0)
    _, numbers = Vectors(vectors, in_bfloat16).nearest(vectors[:1], 5)
    assert numbers.tolist() == [[0, 1, 2, 3, 4]]


@both_types
@pytest.mark.parametrize("share", [0.5, 0.001, 0.0])
def test_only_allowed_rows_are_searched(in_bfloat16: bool, share: float) -> None:
    vectors, queries = unit(4321), unit(3, seed=1)
    allowed = np.random.default_rng(2).random(4321) < share
    products = np.where(allowed, queries @ vectors.T, -np.inf)
    k = min(10, int(allowed.sum()))
    _, numbers = Vectors(vectors, in_bfloat16).nearest(queries, 10, allowed)
    np.testing.assert_array_equal(numbers, np.argsort(-products, axis=1)[:, :k])


@both_types
def test_pairs_are_all_pairs_with_at_least_this_cosine(in_bfloat16: bool) -> None:
    vectors = unit(1500, 8)
    first, second = np.triu_indices(1500, 1)
    cosines = (vectors[first] * vectors[second]).sum(1)
    near = cosines >= 0.9
    parts = list(Vectors(vectors, in_bfloat16).pairs(0.9))
    i, j, found = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == set(
        zip(first[near].tolist(), second[near].tolist(), strict=True)
    )
    assert len(i) == near.sum() > 100
    np.testing.assert_allclose(found, (vectors[i] * vectors[j]).sum(1), atol=1e-6)


def test_a_bfloat16_product_is_within_its_bound() -> None:
    vectors, queries = unit(2000, 384), unit(5, 384, seed=1)
    searched = Vectors(vectors, in_bfloat16=True)
    rounded, bound = searched._rounded(searched.vectors.new_tensor(queries))
    worst = max(
        abs(products.float().numpy() - queries @ vectors[block : block + 1000].T).max()
        for block, products in searched._products(rounded)
    )
    assert bound / 50 < worst < bound


def test_no_rows_and_no_queries() -> None:
    assert Vectors(unit(0)).nearest(unit(2), 10)[1].shape == (2, 0)
    assert Vectors(unit(5)).nearest(unit(0), 10)[1].shape == (0, 5)
    assert list(Vectors(unit(0)).pairs(0.5)) == []
