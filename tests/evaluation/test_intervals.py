import numpy as np
import pytest

from isotune.data import ScoredPairs
from isotune.evaluation.intervals import Floats, interval, resampled_correlations, resampled_means
from isotune.evaluation.results import Aggregation, Metric
from tests.reference.statistics import score_of_draw


def scored(gold: Floats, *sizes: int) -> ScoredPairs:
    """Pairs with these gold scores [N], in subsets of these sizes; without sizes, in one."""
    subsets = np.repeat(np.arange(max(1, len(sizes))), sizes or len(gold)).astype(str).tolist()
    return ScoredPairs("task", "", [], [], gold, subsets)


def part(size: int, seed: int, noise: float) -> tuple[Floats, Floats]:
    """Gold scores with ties and cosines that follow them."""
    generator = np.random.default_rng(seed)
    gold = generator.integers(0, 6, size).astype(np.float64)
    return gold, np.round(gold + noise * generator.standard_normal(size), 1)


@pytest.mark.parametrize("most", [1, 40 * 50, 10**6])  # one sample at a time, some, all
@pytest.mark.parametrize("metric", ["spearman", "pearson"])
@pytest.mark.parametrize(
    ("aggregation", "weights"),
    [("all", (1.0,)), ("mean", (0.5, 0.5)), ("wmean", (40 / 70, 30 / 70))],
)
def test_resampled_correlations_equal_correlations_of_the_repeated_pairs(
    aggregation: Aggregation,
    weights: tuple[float, ...],
    metric: Metric,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isotune.evaluation.intervals.MOST_COUNTS", most)
    parts = [part(40, 1, 2.0), part(30, 2, 1.0)]
    equal = (np.full(20, 3.0), np.arange(20.0))  # gold scores that have no correlation
    gold, cosines = (np.concatenate(sides) for sides in zip(*parts, equal, strict=True))
    pairs = scored(gold, 40, 30, 20)
    if aggregation == "all":
        parts = [(gold, cosines)]
    expected = np.zeros(150)
    for number, ((of_gold, of_cosines), weight) in enumerate(zip(parts, weights, strict=True)):
        generator = np.random.default_rng([3, number, len(of_gold)])
        shares = np.full(len(of_gold), 1 / len(of_gold))
        draws = np.concatenate(
            [generator.multinomial(len(of_gold), shares, size) for size in (100, 50)]
        )
        expected += weight * np.array(
            [score_of_draw(of_gold, of_cosines, draw, metric == "spearman") for draw in draws]
        )
    found = resampled_correlations(pairs, cosines, aggregation, metric, resamples=150, seed=3)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_accuracies_are_scored_on_the_same_samples() -> None:
    right = np.random.default_rng(0).random(300) < 0.7
    np.testing.assert_allclose(resampled_means(right) + resampled_means(~right), 1)
    assert np.isclose(
        resampled_means(right).std(), np.sqrt(right.mean() * (1 - right.mean()) / 300), rtol=0.1
    )


def drawn(
    generator: np.random.Generator, size: int, noises: tuple[float, float]
) -> tuple[Floats, Floats, Floats]:
    """Gold scores on a scale of 0 to 5 with ties, and the cosines of two encoders.

    The encoders share half of their errors.
    """
    meaning, error = generator.standard_normal((2, size))
    gold = np.clip(np.round(5 * (meaning + 0.3 * generator.standard_normal(size) + 2.5)) / 5, 0, 5)
    first, second = (
        meaning + noise * (error + generator.standard_normal(size)) / 2**0.5 for noise in noises
    )
    return gold, first, second


@pytest.mark.parametrize(
    ("draws", "least", "most"),
    [(60, 0.85, 1), pytest.param(1000, 0.93, 0.97, marks=pytest.mark.slow)],
)
def test_equal_encoders_are_tied_in_95_of_100_draws(draws: int, least: float, most: float) -> None:
    inside = 0
    for seed in range(draws):
        gold, *cosines = drawn(np.random.default_rng(seed), 500, (0.7, 0.7))
        first, second = (resampled_correlations(scored(gold), each) for each in cosines)
        low, high = interval(second - first)
        inside += low <= 0 <= high
    assert least <= inside / draws <= most  # 95 % of 60 are 57, with a deviation of 1.7
