import numpy as np
import pytest

from isotune.evaluation.intervals import CorrelatedPairs, Floats, interval, resampled_correlations, resampled_means
from isotune.evaluation.results import Metric
from tests.reference.statistics import score_of_draw


def part(size: int, seed: int, noise: float, weight: float = 1.0) -> CorrelatedPairs:
    """Gold scores with ties and cosines that follow them."""
    generator = np.random.default_rng(seed)
    gold = generator.integers(0, 6, size).astype(np.float64)
    return CorrelatedPairs(gold, np.round(gold + noise * generator.standard_normal(size), 1), weight)


@pytest.mark.parametrize("most", [1, 40 * 50, 10**6])  # one sample at a time, some, all
@pytest.mark.parametrize("metric", ["spearman", "pearson"])
def test_resampled_correlations_equal_correlations_of_the_repeated_pairs(
    metric: Metric, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.evaluation.intervals.MOST_COUNTS", most)
    parts = [part(40, 1, 2.0, 0.25), part(30, 2, 1.0, 0.75)]
    expected = np.zeros(150)
    for number, pairs in enumerate(parts):
        generator = np.random.default_rng([3, number, len(pairs.gold)])
        shares = np.full(len(pairs.gold), 1 / len(pairs.gold))
        draws = np.concatenate([generator.multinomial(len(pairs.gold), shares, size) for size in (100, 50)])
        expected += pairs.weight * np.array(
            [score_of_draw(pairs.gold, pairs.cosines, draw, metric == "spearman") for draw in draws]
        )
    np.testing.assert_allclose(resampled_correlations(parts, metric, 150, seed=3), expected, rtol=1e-12)


def test_accuracies_are_scored_on_the_same_samples() -> None:
    right = np.random.default_rng(0).random(300) < 0.7
    np.testing.assert_allclose(resampled_means(right) + resampled_means(~right), 1)
    assert np.isclose(resampled_means(right).std(), np.sqrt(right.mean() * (1 - right.mean()) / 300), rtol=0.1)


def drawn(generator: np.random.Generator, size: int, noises: tuple[float, float]) -> tuple[Floats, Floats, Floats]:
    """Gold scores on a scale of 0 to 5 with ties, and the cosines of two encoders that share half of their errors."""
    meaning, error = generator.standard_normal((2, size))
    gold = np.clip(np.round(5 * (meaning + 0.3 * generator.standard_normal(size) + 2.5)) / 5, 0, 5)
    first, second = (meaning + noise * (error + generator.standard_normal(size)) / 2**0.5 for noise in noises)
    return gold, first, second


@pytest.mark.parametrize(
    ("draws", "least", "most"), [(60, 0.85, 1), pytest.param(1000, 0.93, 0.97, marks=pytest.mark.slow)]
)
def test_equal_encoders_are_tied_in_95_of_100_draws(draws: int, least: float, most: float) -> None:
    inside = 0
    for seed in range(draws):
        gold, *cosines = drawn(np.random.default_rng(seed), 500, (0.7, 0.7))
        first, second = (resampled_correlations([CorrelatedPairs(gold, each, 1.0)], "spearman") for each in cosines)
        low, high = interval(second - first)
        inside += low <= 0 <= high
    assert least <= inside / draws <= most  # 95 % of 60 are 57, with a deviation of 1.7
