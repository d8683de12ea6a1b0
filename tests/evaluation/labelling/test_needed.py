"""How many scored pairs tell a gain, compared with samples of normal variables."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from isotune.evaluation.labelling import needed
from isotune.evaluation.labelling.choose import (
    CHOICES,
    chosen_agreement,
    chosen_pairs,
    encode_texts,
)
from isotune.evaluation.labelling.needed import (
    forecast_lines,
    gain_shown,
    pairs_needed,
    words_of_needed,
)
from isotune.evaluation.vectors import unit_length
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
        "show a gain of about 4 points or more"
    )
    assert "about 20 for a gain of 2 points" in words_of_needed(1 - 1e-8)


def test_encoders_that_never_differ_are_told_apart_by_no_pair() -> None:
    assert words_of_needed(1.0) == ""


def test_labels_are_not_advised_where_the_usual_gain_needs_too_many() -> None:
    agreement = 0.997
    enough = 100 * gain_shown(needed.REASONABLE, agreement)
    (line,) = forecast_lines(agreement)
    assert line == words_of_needed(agreement)
    assert list(forecast_lines(agreement, 1.01 * enough)) == [line]
    _, warning = forecast_lines(agreement, 0.5 * enough)
    assert warning.startswith("do not label for this: runs of this recipe usually gain about ")
    assert list(forecast_lines(1.0, 0.1)) == []


def test_the_agreement_is_that_of_the_cosines_of_chosen_pairs() -> None:
    texts = [str(angle) for angle in range(1, 90)]
    encoders = [Angles(), Reversed()]
    expected = []
    for seed in range(CHOICES):
        pairs = chosen_pairs(encode_texts(texts, encoders), 20, seed)
        first, second = (
            [np.dot(*unit_length(encoder.encode(list(pair)))) for pair in pairs]
            for encoder in encoders
        )
        expected.append(spearmanr(first, second).statistic)
    vectors = [unit_length(encoder.encode(texts)) for encoder in encoders]
    assert chosen_agreement(vectors, 20) == pytest.approx(np.mean(expected))
    assert chosen_agreement([vectors[0], vectors[0]], 20) == pytest.approx(1)
