"""What training changed between sentences, against distances by hand."""

from __future__ import annotations

import numpy as np
import pytest

from isotune.report import text_changes
from isotune.report.text_changes import compare_text, sample_sentences

CAT, TOMCAT, DOG, CAR = sentences = ["a cat", "a tomcat", "a dog", "a car"]


def at(*degrees: float) -> np.ndarray:
    """Unit vectors [n, 2] at these angles."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], 1)


def test_what_moved_is_told() -> None:
    changes = compare_text(at(0, 40, 10, 100), 3 * at(0, 5, 60, 100), sentences)
    assert (changes.sentences, changes.pairs) == (4, 6)
    assert [(new.sentence, new.before, new.after) for new in changes.new_nearest] == [
        (CAR, TOMCAT, DOG),
        (DOG, CAT, CAR),
        (CAT, DOG, TOMCAT),
        (TOMCAT, DOG, CAT),
    ]
    assert changes.same_nearest == 0
    (closer, *_), (apart, *_) = changes.closer, changes.apart
    assert (closer.first, closer.second) == (CAT, TOMCAT)
    assert (closer.number_before, closer.number_after) == (3, 1)
    assert closer.cosine_after == pytest.approx(np.cos(np.radians(5)))
    assert (apart.first, apart.second) == (CAT, DOG)
    assert (apart.number_before, apart.number_after) == (1, 4)


def test_equal_spaces_change_nothing() -> None:
    vectors = at(0, 40, 10, 100)
    changes = compare_text(vectors, 2 * vectors, sentences)
    assert (changes.agreement, changes.same_nearest, changes.same_neighbours) == (1, 1, 1)
    assert changes.new_nearest == changes.closer == changes.apart == ()


def test_near_duplicates() -> None:
    changes = compare_text(at(0, 40, 10, 100), at(0, 5, 8, 100), sentences)
    assert changes.duplicates_before == 1  # 10 degrees
    assert changes.duplicates_after == 3
    (pair,) = changes.duplicates  # no sentence is shown twice
    assert (pair.first, pair.second) == (TOMCAT, DOG)


def test_a_sentence_is_in_one_example_of_a_kind_and_is_cut() -> None:
    random = np.random.default_rng(0)
    texts = [f"{i} " + "long " * 100 for i in range(50)]
    changes = compare_text(random.standard_normal((50, 8)), random.standard_normal((50, 8)), texts)
    for pairs in (changes.closer, changes.apart):
        ends = [end for pair in pairs for end in (pair.first, pair.second)]
        assert len(pairs) == text_changes.EXAMPLES
        assert len(set(ends)) == len(ends)
        assert max(map(len, ends)) == text_changes.LONGEST


def test_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sample_sentences(["b", "a", "b"], 0) == ["b", "a"]
    monkeypatch.setattr(text_changes, "SENTENCES", 5)
    monkeypatch.setattr(text_changes, "READ", 20)
    texts = [str(i) for i in range(100)]
    drawn = sample_sentences(texts, 0)
    assert len(drawn) == 5
    assert set(drawn) <= set(texts[:20])
    assert drawn == sample_sentences(texts, 0) != sample_sentences(texts, 1)
