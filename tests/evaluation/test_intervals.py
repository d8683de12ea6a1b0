from __future__ import annotations

import numpy as np
import pytest

from isotune.evaluation.intervals import CorrelatedPairs, interval, resampled_scores
from tests.reference.statistics import score_of_draw


def part(size: int, seed: int, noise: float, weight: float = 1.0) -> CorrelatedPairs:
    """Gold scores with ties and cosines that follow them."""
    generator = np.random.default_rng(seed)
    gold = generator.integers(0, 6, size).astype(np.float64)
    return CorrelatedPairs(gold, np.round(gold + noise * generator.standard_normal(size), 1), weight)


@pytest.mark.parametrize("spearman", [True, False])
def test_resampled_scores_equal_scores_of_the_repeated_pairs(spearman: bool) -> None:
    parts = [part(40, 1, 2.0, 0.25), part(30, 2, 1.0, 0.75)]
    expected = np.zeros(150)
    for number, pairs in enumerate(parts):
        generator = np.random.default_rng([number, len(pairs.gold)])
        shares = np.full(len(pairs.gold), 1 / len(pairs.gold))
        draws = np.concatenate([generator.multinomial(len(pairs.gold), shares, size) for size in (100, 50)])
        expected += pairs.weight * np.array(
            [score_of_draw(pairs.gold, pairs.cosines, draw, spearman) for draw in draws]
        )
    np.testing.assert_allclose(resampled_scores(parts, spearman, 150), expected, rtol=1e-12)


def test_two_encoders_are_scored_on_the_same_samples() -> None:
    pairs = part(200, 3, 1.0)
    scaled = CorrelatedPairs(pairs.gold, 2 * pairs.cosines + 1, pairs.weight)
    np.testing.assert_array_equal(resampled_scores([pairs], True), resampled_scores([scaled], True))


def test_the_bootstrap_interval_covers_the_true_correlation() -> None:
    inside = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        gold = generator.standard_normal(150)
        cosines = gold + generator.standard_normal(150)  # Pearson 1 / sqrt(2)
        low, high = interval(resampled_scores([CorrelatedPairs(gold, cosines, 1.0)], False, 300))
        inside += low < 0.5**0.5 < high
    assert 51 <= inside <= 60  # 95 % of 60 are 57, with a deviation of 1.7
