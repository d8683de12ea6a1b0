"""Mined pairs against a slow loop over all pairs."""

from itertools import combinations

import numpy as np
import pytest

from isotune.data import Pair
from isotune.encoder.encoder import Encoder
from isotune.use.search import mining
from isotune.use.search.mining import mine_negatives, mine_pairs


def test_mined_pairs_are_mutual_neighbours(
    encoder: Encoder, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mining, "NEIGHBOURS", 2)
    texts = [*sentences, sentences[0].upper(), f"{sentences[1]} !"]
    least = 0.9
    different = list({mining._letters(text): text for text in texts}.values())
    assert len(different) == 60  # the last two differ from others only by case and punctuation
    vectors = encoder.encode(different, normalize=True)
    products = vectors @ vectors.T
    np.fill_diagonal(products, -1)
    near = np.argsort(-products, axis=1)[:, :2].tolist()
    expected = {
        (different[i], different[j])
        for i, j in combinations(range(60), 2)
        if i in near[j] and j in near[i] and products[i, j] >= least
    }
    pairs = mine_pairs(texts, encoder, least)
    assert {pair for pair, _ in pairs} == expected
    assert len(pairs) == len(expected) > 5
    assert [cosine for _, cosine in pairs] == sorted((cosine for _, cosine in pairs), reverse=True)


def test_negatives_are_the_nearest_within_the_margin_that_do_not_belong(encoder: Encoder, sentences: list[str]) -> None:
    first, second = sentences[:20], sentences[20:40]
    pairs = [*map(Pair, first, second), Pair(first[0].upper(), second[1]), Pair(second[2], second[3])]
    belong = {*pairs, Pair(first[0], second[1]), Pair(first[0].upper(), second[0])}
    expected = []
    for pair in pairs:
        asked = encoder.encode(pair.sentence1, normalize=True)
        cosines = encoder.encode(second, normalize=True) @ asked
        most = 0.97 * cosines[second.index(pair.sentence2)]
        near = [(text, float(cosine)) for text, cosine in zip(second, cosines, strict=True) if cosine <= most]
        fit = [each for each in near if Pair(pair.sentence1, each[0]) not in belong and each[0] != pair.sentence1]
        expected += [(*pair, *each) for each in sorted(fit, key=lambda each: -each[1])[:2]]
    mined = mine_negatives(pairs, encoder, 2, 0.97)
    assert [triplet for triplet, _ in mined] == [row[:3] for row in expected]
    assert [cosine for _, cosine in mined] == pytest.approx([row[3] for row in expected], abs=1e-6)
    assert 20 < len(mined) < 2 * len(pairs)  # some pairs have fewer than two
