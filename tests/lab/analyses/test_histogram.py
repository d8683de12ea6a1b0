import math

import numpy as np
import pytest

from isotune.lab.analyses import histogram
from tests.lab.analyses.conftest import angled, made_pairs

RANDOM = np.random.default_rng(0)
SCORES = [0, 5, *RANDOM.integers(0, 26, 200) / 5]
ANGLES = {
    "wide": RANDOM.uniform(0, 2, 202).tolist(),
    "narrow": RANDOM.uniform(0.1, 0.4, 202).tolist(),
}
ENCODERS = {name: angled(angles) for name, angles in ANGLES.items()}


def test_every_pair_is_in_one_band_and_one_bin() -> None:
    table = histogram.compute(ENCODERS, [made_pairs(SCORES)])
    assert [(row["encoder"], row["from"], row["to"]) for row in table] == [
        (name, band, band + 1) for name in ENCODERS for band in range(5)
    ]
    for row in table:
        last = row["to"] == 5
        inside = [
            math.cos(angle)
            for angle, score in zip(ANGLES[row["encoder"]], SCORES, strict=True)
            if row["from"] <= score < row["to"] or (last and score == 5)
        ]
        assert row["pairs"] == len(inside) == sum(row["counts"])
        assert row["mean"] == pytest.approx(sum(inside) / len(inside))
        for count, low, high in zip(row["counts"], row["edges"], row["edges"][1:], strict=False):
            assert count == sum(low <= value < high for value in inside)


def test_all_encoders_have_the_same_bins_which_hold_the_extremes() -> None:
    table = histogram.compute({"x": angled([0, math.pi, 1, 1, 1])}, [made_pairs([0, 1, 2, 3, 5])])
    assert table[0]["edges"] == pytest.approx(np.linspace(-1, 1, 101).tolist())
    assert table[0]["counts"][-1] == 1  # of a cosine of 1
    assert table[1]["counts"][0] == 1  # of -1
    narrow = histogram.compute({"x": ENCODERS["narrow"]}, [made_pairs(SCORES)])
    assert narrow[0]["edges"] == pytest.approx(np.linspace(0, 1, 51).tolist())


def test_an_empty_band_has_no_mean() -> None:
    table = histogram.compute({"x": angled([0.1, 0.2])}, [made_pairs([0, 5])])
    assert [row["mean"] is None for row in table] == [False, True, True, True, False]
    assert histogram.findings(table) == [
        "x: mean cosine 1.00 of 1 pair with gold 0 to 1, 0.98 of 1 pair with gold 4 to 5."
    ]
