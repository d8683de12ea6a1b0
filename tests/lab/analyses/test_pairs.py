import math

import numpy as np
import pytest

from isotune.lab.analyses import pairs
from tests.lab.analyses.conftest import angled, made_pairs

RANDOM = np.random.default_rng(0)
SCORES = (RANDOM.integers(0, 11, 40) / 2).tolist()
ANGLES = {
    "before": RANDOM.uniform(0, 1.5, 40).tolist(),
    "after": [1.5 - 0.2 * s + 0.1 * math.sin(7 * s) for s in SCORES],
}
ENCODERS = {name: angled(angles) for name, angles in ANGLES.items()}


def rank(values: list[float], i: int) -> float:
    """How many values are lower, equal ones counted half: from 0 to 1."""
    lower = sum(value < values[i] for value in values)
    equal = sum(value == values[i] for value in values) - 1
    return (lower + equal / 2) / (len(values) - 1)


def test_ranks_and_cosines() -> None:
    for row in pairs.compute(ENCODERS, [made_pairs(SCORES)]):
        i = row["pair"]
        cosines = [round(math.cos(angle), 10) for angle in ANGLES[row["encoder"]]]
        assert (row["sentence1"], row["sentence2"], row["gold"]) == (f"a{i}", f"b{i}", SCORES[i])
        assert row["cosine"] == pytest.approx(cosines[i])
        assert row["rank"] == pytest.approx(rank(cosines, i))
        assert row["gold_rank"] == pytest.approx(rank(SCORES, i))


def test_the_best_and_the_worst_are_those_of_the_last_encoder() -> None:
    cosines = [math.cos(angle) for angle in ANGLES["after"]]
    errors = sorted(abs(rank(cosines, i) - rank(SCORES, i)) for i in range(40))
    table = pairs.compute(ENCODERS, [made_pairs(SCORES)], count=4)
    errors_of = {
        kind: [abs(row["rank"] - row["gold_rank"]) for row in table if (row["kind"], row["encoder"]) == (kind, "after")]
        for kind in ("best", "worst")
    }
    assert errors_of["best"] == pytest.approx(errors[:4])
    assert errors_of["worst"] == pytest.approx(errors[:-5:-1])


def test_random_pairs_follow_the_seed() -> None:
    def drawn(seed: int) -> list[int]:
        return [
            row["pair"] for row in pairs.compute(ENCODERS, [made_pairs(SCORES)], seed=seed) if row["kind"] == "random"
        ]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)
    assert len(set(drawn(3))) == 3


def test_findings_and_figure_show_the_pairs() -> None:
    pair = {"pair": 7, "sentence1": "A $5 note " * 9, "sentence2": "It's 5 dollars", "gold": 4.5, "gold_rank": 0.9}
    table = [
        {**pair, "kind": kind, "encoder": name, "cosine": 0.8617, "rank": rank}
        for kind in ("random", "worst")
        for name, rank in (("before", 0.5), ("after", 0.7))
    ]
    short = [{**row, "sentence1": "A $5 note"} for row in table]
    assert pairs.findings(short)[0] == (
        "random: 'A $5 note' and \"It's 5 dollars\": gold 4.5, before 0.862, after 0.862."
    )
    (ax,) = pairs.draw(table).axes
    ranks = {line.get_label(): line.get_xydata().tolist() for line in ax.lines}
    assert ranks == {name: [[x, 0], [x, 1]] for name, x in (("gold", 0.9), ("before", 0.5), ("after", 0.7))}
