"""What training changed between sentences, against distances by hand."""

import numpy as np
import pytest

from isotune.evaluation import text_changes
from isotune.evaluation.text_changes import compare_text, sample_sentences

CAT, TOMCAT, DOG, CAR = sentences = ["a cat", "a tomcat", "a dog", "a car"]


def at(*degrees: float) -> np.ndarray:
    """Unit vectors [n, 2] at these angles."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], 1)


def test_new_neighbours_are_told_the_clearest_first() -> None:
    changes = compare_text(at(0, 40, 10, 100), 3 * at(0, 5, 60, 100), sentences)
    assert changes.sentences == 4
    assert [(new.sentence, new.before, new.after) for new in changes.new_nearest] == [
        (CAR, TOMCAT, DOG),
        (DOG, CAT, CAR),
        (CAT, DOG, TOMCAT),
        (TOMCAT, DOG, CAT),
    ]
    assert changes.same_nearest == 0


def test_equal_spaces_change_nothing() -> None:
    vectors = at(0, 40, 10, 100)
    changes = compare_text(vectors, 2 * vectors, sentences)
    assert (changes.agreement, changes.same_nearest, changes.same_neighbours) == (1, 1, 1)
    assert changes.new_nearest == ()


def test_long_sentences_are_cut() -> None:
    random = np.random.default_rng(0)
    texts = [f"{i} " + "long " * 100 for i in range(50)]
    changes = compare_text(random.standard_normal((50, 8)), random.standard_normal((50, 8)), texts)
    assert len(changes.new_nearest) == text_changes.EXAMPLES
    assert {len(text) for new in changes.new_nearest for text in (new.sentence, new.before)} == {
        text_changes.LONGEST
    }


def test_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sample_sentences(["b", "a", "b"], 0) == ["b", "a"]
    monkeypatch.setattr(text_changes, "SENTENCES", 5)
    monkeypatch.setattr(text_changes, "READ", 20)
    texts = [str(i) for i in range(100)]
    drawn = sample_sentences(texts, 0)
    assert len(drawn) == 5
    assert set(drawn) <= set(texts[:20])
    assert drawn == sample_sentences(texts, 0) != sample_sentences(texts, 1)
