from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr, ttest_rel

from isotune.evaluation.intervals import CorrelatedPairs
from isotune.lab.studies.statistics import holm, paired_test, summary, williams, williams_p
from tests.reference.statistics import sign_permutation_p, williams_t


def part(size: int, seed: int, noise: float, weight: float = 1.0) -> CorrelatedPairs:
    """Gold scores with ties and cosines that follow them."""
    generator = np.random.default_rng(seed)
    gold = generator.integers(0, 6, size).astype(np.float64)
    return CorrelatedPairs(gold, np.round(gold + noise * generator.standard_normal(size), 1), weight)


def test_summary() -> None:
    short = summary([0.5, 0.7, 0.9])
    assert (short.mean, short.deviation, short.least, short.greatest, short.n) == (
        pytest.approx(0.7),
        pytest.approx(0.2),
        0.5,
        0.9,
        3,
    )
    assert summary([0.5]).deviation is None


def test_the_paired_test_equals_scipys() -> None:
    first, second = [0.70, 0.72, 0.69, 0.74, 0.71], [0.68, 0.71, 0.70, 0.70, 0.69]
    differences = [a - b for a, b in zip(first, second, strict=True)]
    test, known = paired_test(differences), ttest_rel(first, second)
    assert test.p == pytest.approx(known.pvalue)
    assert (test.low, test.high) == pytest.approx(tuple(known.confidence_interval()))
    assert test.p_exact == pytest.approx(sign_permutation_p(differences))


def test_the_permutation_test_cannot_reach_five_percent_at_five_seeds() -> None:
    assert paired_test([0.1, 0.11, 0.12, 0.13, 0.14]).p_exact == pytest.approx(2 / 2**5)
    assert paired_test([0.1, 0.11, 0.12, 0.13, 0.14]).p < 0.001


@pytest.mark.parametrize(("value", "p"), [(0.0, 1.0), (0.02, 0.0)])
def test_equal_differences_have_p_1_or_0(value: float, p: float) -> None:
    test = paired_test([value] * 4)
    assert (test.low, test.high, test.p) == (value, value, p)


def test_holms_correction_equals_the_one_by_hand() -> None:
    # By hand: 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.5 x 1, none below the one before.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("r12", "r13", "r23", "n", "t", "p"),
    [
        (0.3, 0.4, 0.5, 100, -1.0767, 0.2843),  # Silver, Hittner and May 2006, the example of their program
        (0.5, 0.4, 0.1, 103, 0.89, 0.37),  # Steiger 1980: masculinity, femininity and verbal ability
    ],
)
def test_williams_gives_published_values(r12: float, r13: float, r23: float, n: int, t: float, p: float) -> None:
    got_t, got_p = williams(r12, r13, r23, n)
    assert got_t == pytest.approx(t, abs=5e-5 if n == 100 else 5e-3)
    assert got_p == pytest.approx(p, abs=5e-5 if n == 100 else 6e-3)


def test_williams_equals_its_transcription() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        r = np.corrcoef(generator.standard_normal((3, 5)))
        n = int(generator.integers(5, 2000))
        assert williams(r[0, 1], r[0, 2], r[1, 2], n)[0] == pytest.approx(
            williams_t(r[0, 1], r[0, 2], r[1, 2], n), rel=1e-5
        )


def test_williams_says_nothing_with_three_pairs() -> None:
    assert [williams(0.9, 0.1, 0.2, n) for n in (2, 3)] == [(0.0, 1.0)] * 2
    first, second = part(3, 0, 0.1), part(3, 1, 5.0)
    assert williams_p(first, second, False) == 1


def test_williams_between_two_encoders() -> None:
    good, bad = part(300, 5, 1.0), part(300, 5, 4.0)
    r = [
        spearmanr(a, b).statistic
        for a, b in ((good.gold, good.cosines), (good.gold, bad.cosines), (good.cosines, bad.cosines))
    ]
    assert williams_p(good, bad, True) == pytest.approx(williams(*r, 300)[1])
    assert williams_p(good, bad, True) < 1e-6
    assert williams_p(good, good, True) == 1.0
