from __future__ import annotations

import pytest
from scipy.stats import ttest_rel

from isotune.lab.studies.statistics import holm, paired_test, summary
from tests.reference.statistics import sign_permutation_p


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
