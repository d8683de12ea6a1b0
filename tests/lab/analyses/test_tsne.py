import numpy as np
import pytest

from isotune.lab.analyses import tsne
from tests.lab.analyses.conftest import angled, cosine, made_pairs

# 12 pairs at 5, 12 at 0 and 6 between.
SCORES = [5, 0] * 12 + [1, 2, 3, 4, 4.8, 0.2]
ENCODER = angled(np.linspace(0.1, 1.5, len(SCORES)).tolist())


def test_the_pairs_are_those_of_the_highest_and_lowest_scores() -> None:
    table = tsne.compute({"x": ENCODER}, [made_pairs(SCORES)], count=10)
    assert len(table) == 40
    assert {(row["kind"], row["gold"]) for row in table} == {
        ("most similar", 5),
        ("least similar", 0),
    }
    more = tsne.compute({"x": ENCODER}, [made_pairs(SCORES)], count=13)
    assert sorted({row["gold"] for row in more}) == [0, 0.2, 4.8, 5]
    for first, second in zip(table[::2], table[1::2], strict=True):
        assert first["sentence"][1:] == second["sentence"][1:]
        vectors = (ENCODER.vectors[row["sentence"]] for row in (first, second))
        assert first["cosine"] == pytest.approx(cosine(*vectors))
        assert (first["pair"], first["kind"]) == (second["pair"], second["kind"])


def test_the_seed_decides_among_equal_scores() -> None:
    def drawn(seed: int) -> list[str]:
        return [
            row["sentence"]
            for row in tsne.compute({"x": ENCODER}, [made_pairs(SCORES)], seed=seed, count=10)
        ]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_with_too_few_pairs_each_kind_has_half() -> None:
    table = tsne.compute({"x": ENCODER}, [made_pairs([0, 1, 5])])
    assert [(row["kind"], row["gold"]) for row in table[::2]] == [
        ("most similar", 5),
        ("least similar", 0),
    ]


def test_a_line_joins_the_two_sentences_of_a_pair() -> None:
    table = tsne.compute({"one": ENCODER, "two": ENCODER}, [made_pairs(SCORES)], count=10)
    first = [row["cosine"] for row in table[:40:2]]
    assert tsne.findings(table)[0] == (
        f"one: mean cosine {np.mean(first[:10]):.2f} of the 10 most similar, "
        f"{np.mean(first[10:]):.2f} of the 10 least similar pairs."
    )
    one, _ = tsne.draw(table).axes
    assert one.lines[1].get_xydata().tolist() == [[row["x"], row["y"]] for row in table[:2]]
    assert len({line.get_color() for line in one.lines}) == 2
