"""How many scored pairs tell a gain, compared with samples of normal variables."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata

from isotune.evaluation.labelling import needed
from isotune.evaluation.labelling.choose import agreement
from isotune.evaluation.labelling.needed import gain_shown, pairs_needed, words_of_needed
from tests.evaluation.test_geometry import Angles


class Reversed(Angles):
    """An encoder to which a larger angle is nearer to 0 degrees."""

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        turned = {"0": "0"} | {str(angle): str(90 - angle) for angle in range(1, 90)}
        return super().encode([turned[text] for text in sentences])


Array = NDArray[np.float64]
SAMPLES = 1500


def spearman(a: Array, b: Array) -> Array:
    """The correlations [S] of S samples [S, N]."""
    first = rankdata(a, axis=1)
    second = rankdata(b, axis=1)
    first = first - first.mean(1, keepdims=True)
    second = second - second.mean(1, keepdims=True)
    return (first * second).sum(1) / np.sqrt((first**2).sum(1) * (second**2).sum(1))


def differences(count: int, likeness: float) -> Array:
    """The differences [S] of two encoders' Spearman correlations on samples of `count` pairs.

    Cosines and scores are normal. Pearson's correlation of each encoder with the scores is 0.7, and
    that of the encoders is `likeness`.
    """
    covariance = np.array([[1, 0.7, 0.7], [0.7, 1, likeness], [0.7, likeness, 1]])
    drawn = np.random.default_rng(0).normal(size=(SAMPLES, count, 3))
    gold, first, second = np.moveaxis(drawn @ np.linalg.cholesky(covariance).T, 2, 0)
    return spearman(gold, second) - spearman(gold, first)


@pytest.mark.parametrize("likeness", [0.999, 0.99, 0.9])
@pytest.mark.parametrize("count", [30, 150])
def test_a_gain_of_this_size_is_told_in_four_of_five_samples(
    count: int, likeness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real pairs have a larger standard error, by the measured factor."""
    monkeypatch.setattr(needed, "FACTOR", 1.0)
    error = float(differences(count, likeness).std())
    # Spearman's correlation of normal variables (Pearson, 1907).
    ranks_agree = 6 / np.pi * np.arcsin(likeness / 2)
    assert pairs_needed(needed.SURE * error, ranks_agree) == pytest.approx(count, rel=0.25)


def test_a_half_of_the_gain_needs_about_four_times_as_many_pairs_and_alike_encoders_fewer() -> None:
    assert 3 < pairs_needed(0.005, 0.99) / pairs_needed(0.01, 0.99) < 4
    assert pairs_needed(0.01, 0.999) < pairs_needed(0.01, 0.99) / 3


@pytest.mark.parametrize("agreement", [0.9, 0.99, 0.9999])
@pytest.mark.parametrize("count", [30, 50, 2_000])
def test_the_gain_that_pairs_show_needs_as_many_pairs(count: int, agreement: float) -> None:
    assert pairs_needed(gain_shown(count, agreement) * 1.0001, agreement) == count


def test_the_line_has_round_numbers_and_none_below_the_fewest_that_choose() -> None:
    assert words_of_needed(0.9973) == (
        "scored pairs that tell these encoders apart (Spearman x 100): about 110 for a gain of "
        "2 points, about 360 for a gain of 1 point, about 1,300 for a gain of half a point; 50 "
        "show a gain of 3.5 points or more"
    )
    assert "about 20 for a gain of 2 points" in words_of_needed(1 - 1e-8)


def test_encoders_that_never_differ_are_told_apart_by_no_pair() -> None:
    assert words_of_needed(1.0) == ""


def test_the_agreement_of_encoders_is_that_of_their_orders() -> None:
    pairs = [("0", str(angle)) for angle in range(10, 90, 20)]
    assert agreement(pairs, Angles(), Angles()) == pytest.approx(1)
    assert agreement(pairs, Angles(), Reversed()) == pytest.approx(-1)
