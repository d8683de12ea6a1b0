import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from isotune.data import ScoredPairs
from isotune.errors import InputError
from isotune.evaluation import correlations, cosine_similarities, score


class Lookup:
    """An encoder that looks vectors up in a table, and keeps the sentences that it was given."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self.vectors = vectors
        self.asked: list[str] = []

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.asked += sentences
        return np.array([self.vectors[sentence] for sentence in sentences], np.float32)


def scored(
    scores: Sequence[float],
    subsets: Sequence[str] | None = None,
    sentences: Sequence[tuple[str, str]] | None = None,
) -> ScoredPairs:
    count = len(scores)
    first, second = zip(*(sentences or [(f"a{i}", f"b{i}") for i in range(count)]), strict=True)
    return ScoredPairs(
        "toy",
        "test",
        list(first),
        list(second),
        np.array(scores, float),
        list(subsets or ["toy"] * count),
    )


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, the mean rank for ties, by counting."""
    return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    mx, my = math.fsum(x) / len(x), math.fsum(y) / len(y)
    covariance = math.fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return covariance / math.sqrt(
        math.fsum((a - mx) ** 2 for a in x) * math.fsum((b - my) ** 2 for b in y)
    )


def test_cosines_are_the_formulas() -> None:
    encoder = Lookup({"x": [3, 0], "y": [0, 2], "xy": [1, 1], "-x": [-5, 0], "zero": [0, 0]})
    sentences = [
        ("x", "y"),
        ("x", "xy"),
        ("x", "-x"),
        ("x", "zero"),
        ("zero", "zero"),
        ("xy", "xy"),
    ]
    cosines = cosine_similarities(encoder, scored([0.0] * 6, sentences=sentences))
    assert cosines == pytest.approx([0, math.sqrt(0.5), -1, 0, 0, 1], abs=1e-9)
    assert cosines.dtype == np.float64


def test_each_distinct_sentence_is_encoded_once() -> None:
    encoder = Lookup({"x": [1, 2], "y": [2, 1], "z": [0, 1]})
    cosine_similarities(
        encoder, scored([1, 2, 3, 4], sentences=[("x", "y"), ("y", "x"), ("x", "x"), ("z", "y")])
    )
    assert sorted(encoder.asked) == ["x", "y", "z"]


def test_pairs_of_equal_sentences_tie() -> None:
    random = np.random.default_rng(0)
    encoder = Lookup({str(i): random.normal(size=768).tolist() for i in range(50)})
    cosines = cosine_similarities(
        encoder, scored([0.0] * 50, sentences=[(str(i), str(i)) for i in range(50)])
    )
    assert set(cosines) == {1.0}


def test_vectors_that_are_not_finite_are_refused() -> None:
    encoder = Lookup({"x": [1, math.nan], "y": [2, 1]})
    with pytest.raises(InputError, match="toy: the encoder gives vectors with NaN"):
        cosine_similarities(encoder, scored([1], sentences=[("x", "y")]))


values = arrays(np.float64, 30, elements=st.integers(-50, 50).map(lambda i: i / 50))


@settings(deadline=None, max_examples=40)  # the first call imports scipy.stats
@given(gold=values, cosines=values)
def test_correlations_are_the_slow_reference(gold: np.ndarray, cosines: np.ndarray) -> None:
    both = correlations(gold, cosines)
    if np.ptp(gold) == 0:
        assert both is None
    elif np.ptp(cosines) == 0:
        assert both == (0, 0)
    else:
        assert both == pytest.approx(
            (pearson(ranks(gold), ranks(cosines)), pearson(gold, cosines)), abs=1e-9
        )


def test_the_three_aggregations_are_the_formulas() -> None:
    random = np.random.default_rng(0)
    subsets = ["a"] * 10 + ["b"] * 40 + ["a"] * 5
    gold, cosines = random.uniform(0, 5, 55), random.uniform(-1, 1, 55)
    rows = {name: np.array(subsets) == name for name in "ab"}
    a, b = (pearson(ranks(gold[rows[name]]), ranks(cosines[rows[name]])) for name in "ab")

    result = score(scored(gold, subsets), cosines)

    assert (result.name, result.split, result.pairs) == ("toy", "test", 55)
    assert result.spearman.all == pytest.approx(pearson(ranks(gold), ranks(cosines)))
    assert result.spearman.mean == pytest.approx((a + b) / 2)
    assert result.spearman.wmean == pytest.approx((15 * a + 40 * b) / 55)
    assert result.pearson.all == pytest.approx(pearson(gold, cosines))


def test_each_subset_has_its_correlations() -> None:
    random = np.random.default_rng(0)
    subsets = ["a"] * 10 + ["b"] * 40 + ["a"] * 5
    gold, cosines = random.uniform(0, 5, 55), random.uniform(-1, 1, 55)
    of_b = slice(10, 50)

    result = score(scored(gold, subsets), cosines)

    assert list(result.subsets) == ["a", "b"]
    assert result.subsets["a"].pairs == 15
    spearman = pearson(ranks(gold[of_b]), ranks(cosines[of_b]))
    assert result.subsets["b"].spearman == pytest.approx(spearman)
    assert result.subsets["b"].pearson == pytest.approx(pearson(gold[of_b], cosines[of_b]))


def test_a_subset_of_equal_gold_scores_is_left_out_and_one_of_equal_cosines_counts_as_zero() -> (
    None
):
    result = score(
        scored([1, 1, 1, 2, 4, 3], list("aaabbb")), np.array([0.1, 0.5, 0.3, 0.2, 0.9, 0.8])
    )
    assert result.subsets["a"].model_dump() == {"pairs": 3, "spearman": None, "pearson": None}
    assert (
        result.spearman.mean
        == result.spearman.wmean
        == result.subsets["b"].spearman
        == pytest.approx(1)
    )
    result = score(
        scored([1, 2, 3, 2, 4, 3], list("aaabbb")), np.array([0.5, 0.5, 0.5, 0.2, 0.9, 0.8])
    )
    assert result.subsets["a"].spearman == result.subsets["a"].pearson == 0
    assert result.spearman.mean == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("gold", "subsets", "cosines", "message"),
    [
        ([2, 2, 2], "aaa", [0.1, 0.2, 0.3], "all 3 gold scores are equal"),
        ([1, 2, 3], "aaa", [0.9, 0.9, 0.9], r"all 3 pairs the same cosine \(0.9000\)"),
        ([1, 2, 3], "aaa", [0.9, 0.9 + 1e-12, 0.9], r"all 3 pairs the same cosine \(0.9000\)"),
        ([1, 2, 3], "abc", [0.1, 0.2, 0.3], "each subset's gold scores are all equal"),
    ],
)
def test_a_task_without_variance_is_refused(
    gold: list[float], subsets: str, cosines: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=f"toy: .*{message}"):
        score(scored(gold, list(subsets)), np.array(cosines))
