import numpy as np
import pytest
from scipy.stats import spearmanr

from isotune.lab.analyses import cosines
from tests.lab.analyses.conftest import angled, cosine, made_pairs

SCORES = [0, 1, 1.5, 2, 3, 5]
ENCODERS = {
    "flat": angled([0.1, 0.2, 0.1, 0.15, 0.12, 0.11]),
    "good": angled([2, 1.5, 1.6, 1, 0.5, 0]),
}


def test_every_pair_has_its_cosine() -> None:
    table = cosines.compute(ENCODERS, [made_pairs(SCORES)])
    assert len(table) == 12
    for i, row in enumerate(table):
        vectors = ENCODERS[row["encoder"]].vectors
        assert (row["sentence1"], row["sentence2"], row["gold"]) == (
            f"a{i % 6}",
            f"b{i % 6}",
            SCORES[i % 6],
        )
        assert row["cosine"] == pytest.approx(
            cosine(vectors[row["sentence1"]], vectors[row["sentence2"]])
        )


def test_findings_and_figure_show_how_far_cosines_spread() -> None:
    good = np.cos([2, 1.5, 1.6, 1, 0.5, 0])
    quarter, three_quarters = np.quantile(good, (0.25, 0.75))
    table = cosines.compute(ENCODERS, [made_pairs(SCORES)])
    assert cosines.findings(table)[1] == (
        f"good: cosines from {good.min():.2f} to 1.00, half of them between {quarter:.2f} and "
        f"{three_quarters:.2f}; Spearman {100 * spearmanr(SCORES, good).statistic:.2f}, 6 pairs."
    )
    flat, of_good = cosines.draw(table).axes
    assert [ax.get_title(loc="left").partition(":")[0] for ax in (flat, of_good)] == [
        "flat",
        "good",
    ]
    assert flat.get_ylim() == of_good.get_ylim()
    (points,) = of_good.lines
    assert points.get_xydata() == pytest.approx(np.stack([SCORES, good], 1))
