"""Duplicates and mined pairs against slow loops over all pairs."""

import csv
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from isotune.data import Pair, read
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.search import Document, duplicates, mining
from isotune.use.search.duplicates import find_duplicates
from isotune.use.search.mining import mine_pairs


@pytest.fixture
def documents(sentences: list[str]) -> list[Document]:
    """Sixty texts, each of the first twenty once more at the end, and the next ten with one word more."""
    texts = [*sentences, *(f"{text} cat" for text in sentences[20:30]), *sentences[:20]]
    return [Document(f"d{i}", text, {"number": i}) for i, text in enumerate(texts)]


def test_duplicates_are_all_pairs_above_the_cosine(encoder: Encoder, documents: list[Document]) -> None:
    least = 0.97
    result = find_duplicates(documents, encoder, least)
    vectors = encoder.encode([document.text for document in documents], normalize=True)
    first = [next(i for i, other in enumerate(documents) if other.text == document.text) for document in documents]
    expected = {
        (i, j)
        for i, j in combinations(range(len(documents)), 2)
        if (first[i] == i and first[j] == j and vectors[i] @ vectors[j] >= least) or first[j] == i
    }
    assert set(map(tuple, result.pairs.tolist())) == expected
    assert len(result.pairs) == len(expected) > 40
    cosines = (vectors[result.pairs[:, 0]] * vectors[result.pairs[:, 1]]).sum(1)
    np.testing.assert_allclose(result.cosines, cosines, atol=1e-6)
    assert np.all(np.diff(result.cosines) <= 0)

    kept = {i for i, keeper in enumerate(result.kept) if i == keeper}
    near = vectors @ vectors.T >= least - 1e-6
    assert all(not near[i, j] for i, j in combinations(sorted(kept), 2))
    assert all(near[i, keeper] and keeper in kept and keeper <= i for i, keeper in enumerate(result.kept.tolist()))
    assert [document.id for document in result.unique] == [f"d{i}" for i in sorted(kept)]
    clusters = result.clusters()
    assert sorted(i for cluster in clusters for i in cluster) == sorted(
        i for i, keeper in enumerate(result.kept.tolist()) if (result.kept == keeper).sum() > 1
    )
    assert all(cluster[0] in kept and cluster == sorted(cluster) for cluster in clusters)
    assert [len(cluster) for cluster in clusters] == sorted(map(len, clusters), reverse=True)


def test_too_many_pairs_are_refused(
    encoder: Encoder, documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "MOST_PAIRS", 10)
    with pytest.raises(InputError, match=r"more than 10 pairs have a cosine of 0\.1 or more; give a larger one"):
        find_duplicates(documents, encoder, 0.1)


def test_what_is_written(encoder: Encoder, documents: list[Document], tmp_path: Path) -> None:
    result = find_duplicates(documents, encoder, 0.99)
    pairs, clusters, unique = result.write(tmp_path)
    with pairs.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id1"], row["id2"]) for row in rows] == [(f"d{i}", f"d{j}") for i, j in result.pairs.tolist()]
    assert rows[0]["sentence1"] == documents[result.pairs[0, 0]].text
    assert len(list(read(str(pairs), Pair))) == len(rows)
    with clusters.open(newline="") as file:
        listed = list(csv.DictReader(file))
    assert [row["id"] for row in listed] == [f"d{i}" for cluster in result.clusters() for i in cluster]
    written = [json.loads(line) for line in unique.read_text("utf-8").splitlines()]
    assert written == [{"id": document.id, **document.columns, "sentence": document.text} for document in result.unique]
    plain = find_duplicates([Document("a", "a dog"), Document("b", "a dog")], encoder, 0.99)
    assert plain.write(tmp_path)[2].read_text() == "a dog\n"


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


def test_texts_that_the_vocabulary_lacks_are_no_duplicates(encoder: Encoder, documents: list[Document]) -> None:
    """Their tokens are all the same, and so are their vectors; equal texts are duplicates all the same."""
    foreign = [Document(f"f{i}", f"\u65e5 \u672c {chr(0x4E00 + i // 2)}") for i in range(8)]
    found, without = (find_duplicates(given, encoder, 0.9) for given in ([*documents, *foreign], documents))
    kept = [len(documents) + i // 2 * 2 for i in range(8)]
    assert found.kept.tolist() == [*without.kept, *kept]
