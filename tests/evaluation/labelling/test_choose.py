"""Which pairs are chosen to be scored by a person."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isotune.data import ScoredPair
from isotune.evaluation.labelling.choose import choose, chosen_pairs, encode_texts, surely_best
from tests.evaluation.test_geometry import Angles


def pairs_of(n: int) -> NDArray[np.int64]:
    """n pairs without a common sentence."""
    return np.arange(2 * n).reshape(n, 2)


def test_chosen_pairs_cover_the_range_of_cosines_evenly_and_the_first_of_them_are_spread_too() -> (
    None
):
    cosines = np.linspace(-1, 1, 1001)[None] ** 3  # most of them near 0
    chosen = choose(cosines, pairs_of(1001), 10, np.random.default_rng(0))
    assert sorted(((cosines[0, chosen] + 1) / 0.2).clip(max=9.9).astype(int)) == list(range(10))
    cosines = np.linspace(0, 1, 1000)[None]
    first = choose(cosines, pairs_of(1000), 40, np.random.default_rng(0))[:10]
    assert np.ptp(cosines[0, first]) > 0.5
    assert (
        cosines[0, first[0]]
        == cosines[0, choose(cosines, pairs_of(1000), 40, np.random.default_rng(0))].max()
    )


def test_of_similar_pairs_the_one_on_which_encoders_disagree_is_chosen() -> None:
    cosines = np.tile(np.repeat([0.1, 0.4, 0.6, 0.9], 5), (2, 1)) + 0.001 * np.arange(20)
    disputed = [2, 8, 11, 19]
    cosines[:, disputed] += [[0.05], [-0.05]]  # the same mean
    assert sorted(choose(cosines, pairs_of(20), 4, np.random.default_rng(0))) == disputed


def test_no_sentence_is_asked_for_twice_and_neighbours_are_among_the_chosen() -> None:
    pairs = chosen_pairs(encode_texts([str(angle) for angle in range(0, 180, 5)], [Angles()]), 12)
    assert len(pairs) == 12
    assert len({sentence for pair in pairs for sentence in pair}) == 24
    angles = [*range(0, 360, 40), *range(1, 360, 40)]  # each has one neighbour, one degree away
    pairs = chosen_pairs(encode_texts([str(angle) for angle in angles], [Angles()]), 3)
    assert 1 in [abs(float(first) - float(second)) for first, second in pairs]
    assert (
        chosen_pairs(encode_texts(["1", "1"], [Angles()]), 3) == []
    )  # repeats and lonely sentences give no pair


def test_an_encoder_is_surely_best_only_where_chance_is_excluded() -> None:
    random = np.random.default_rng(0)
    angles = random.uniform(0, 180, 200)
    noisy = [
        {
            str(angle): angle + 40 * noise
            for angle, noise in zip(angles, random.normal(size=200), strict=True)
        }
        for _ in range(2)
    ]

    class Shaken(Angles):
        def __init__(self, number: int) -> None:
            self.moved = noisy[number]

        def encode(self, sentences: Sequence[str], /) -> NDArray[np.float64]:
            return super().encode([str(self.moved.get(sentence, 0.0)) for sentence in sentences])

    def scored(count: int) -> list[ScoredPair]:
        return [ScoredPair("0", str(angle), 180 - angle) for angle in angles[:count].tolist()]

    assert surely_best(scored(30), [Shaken(0), Angles()]) == 1
    assert surely_best(scored(200), [Shaken(0), Shaken(1)]) is None
    assert (
        surely_best([pair._replace(score=3.0) for pair in scored(30)], [Shaken(0), Angles()])
        is None
    )
