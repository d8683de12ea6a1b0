"""Mined pairs against a slow loop over all pairs."""

from itertools import combinations

import numpy as np
import pytest

from isotune.encoder.encoder import Encoder
from isotune.use.search import mining
from isotune.use.search.mining import mine_pairs


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
    assert {(first, second) for first, second, _ in pairs} == expected
    assert len(pairs) == len(expected) > 5
    assert [pair.cosine for pair in pairs] == sorted((pair.cosine for pair in pairs), reverse=True)
