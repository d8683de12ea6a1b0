"""Examples that a reader can judge, against places by hand."""

import numpy as np
import pytest

from isotune.evaluation import RetrievalTask, examples
from isotune.evaluation.examples import answer_examples, neighbours, pair_examples

TEXTS = [(f"{number}", "other") for number in range(5)]


def at(*degrees: float) -> np.ndarray:
    """Unit vectors [n, 2] at these angles."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], 1)


def test_a_gain_is_a_place_that_comes_nearer_to_the_judges() -> None:
    gold = np.array([5.0, 4, 3, 2, 1])
    before = np.array([0.1, 0.8, 0.7, 0.3, 0.5])
    after = np.array([0.9, 0.8, 0.7, 0.2, 0.5])
    found = pair_examples(TEXTS, gold, before, after)
    assert found.pairs == 5
    first, *others = found.gains
    assert (first.first, first.judged, first.before, first.after) == ("0", 1, 0, 1)
    assert [pair.first for pair in others] == ["1", "2", "4"]
    (loss,) = found.losses
    assert (loss.first, loss.judged, loss.before, loss.after) == ("3", 0.25, 0.25, 0)


def test_pairs_that_stay_are_no_examples() -> None:
    found = pair_examples(TEXTS, np.arange(5.0), np.ones(5), np.ones(5))
    assert found.gains == found.losses == ()


def test_the_examples_are_few_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "GAINS", 2)
    monkeypatch.setattr(examples, "LOSSES", 1)
    random = np.random.default_rng(0).standard_normal((3, 50))
    found = pair_examples([("long " * 100, "b")] * 50, *random)
    assert (len(found.gains), len(found.losses)) == (2, 1)
    assert len(found.gains[0].first) == 300


def test_the_places_of_answers() -> None:
    task = RetrievalTask("faq", ["a?", "b?", "c?"], ["a.", "b.", "c."], [{0: 1}, {1: 1}, {2: 1}])
    before = np.zeros((3, 5))
    after = np.zeros((3, 5))
    # The second measure is the reciprocal rank.
    before[:, 1] = [0, 1 / 2, 1]
    after[:, 1] = [1 / 3, 1 / 2, 1 / 7]
    found = answer_examples(task, before, after)
    (gain,) = found.gains
    assert (gain.query, gain.answer, gain.before, gain.after) == ("a?", "a.", None, 3)
    (loss,) = found.losses
    assert (loss.query, loss.before, loss.after) == ("c?", 1, 7)


def test_the_neighbours_before_and_after() -> None:
    found = neighbours(["a", "b", "c"], at(0, 10, 40), 2 * at(0, 50, 20))
    assert found.before == ((1, 2), (0, 2), (1, 0))
    assert found.after == ((2, 1), (2, 0), (0, 1))
    assert found.before_cosines[0][0] == pytest.approx(np.cos(np.radians(10)), abs=1e-3)
    assert found.newly_near() == []


def test_new_neighbours_are_sorted_by_their_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "NEIGHBOURS", 1)
    found = neighbours(["a", "b", "c"], at(0, 10, 40), at(0, 50, 20))
    assert found.newly_near() == [0, 2, 1]


def test_neighbours_of_a_long_text_are_those_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "SEARCHED", 4)
    random = np.random.default_rng(0)
    texts = [str(number) for number in range(10)]
    found = neighbours(texts, random.standard_normal((10, 3)), random.standard_normal((10, 3)))
    assert found.sentences == ("0", "3", "6", "9")
    assert all(len(near) == 3 for near in found.before)
