"""Copies of rows make no score better, and no interval narrower."""

import logging
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from isotune.data import LabelledSentence, Pair, ScoredPair
from isotune.evaluation import TaskRows, compare, evaluate, load_tasks
from isotune.evaluation.calibration import calibrate
from isotune.evaluation.classifiers import Logistic
from isotune.evaluation.copies import distinct_texts, groups_of_copies, number_of_copies
from isotune.evaluation.labelling.choose import chosen_pairs, encode_texts
from isotune.evaluation.results import TransferResult
from isotune.evaluation.text_changes import sample_sentences
from tests.evaluation.test_comparison import Noisy


class Fingerprints(Noisy):
    """Vectors by which a classifier knows a text again, and nothing else."""

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float64]:
        return super().encode([sentence.lower().strip(" .!") for sentence in sentences])

    def fingerprint(self) -> str:
        return "none"


def spellings(text: str, times: int) -> list[str]:
    """Copies of a text, which differ in case and punctuation."""
    return [text, text.upper(), f"{text}.", f" {text}!", text.title()][:times]


def random_labels(times: int) -> TaskRows:
    generator = random.Random(0)
    rows = []
    for number in range(90):
        text = " ".join(generator.choices(["printer", "cable", "router", "screen", "mouse"], k=5))
        label = generator.choice("abc")
        for spelling in spellings(f"{text} {number}", times):
            rows.append(LabelledSentence(spelling, label))
    generator.shuffle(rows)
    return TaskRows("classification", rows)


def classified(task: TaskRows) -> TransferResult:
    (result,) = evaluate(Fingerprints(50), task).tasks
    assert isinstance(result, TransferResult)
    return result


def test_texts_are_copies_if_their_letters_and_digits_are() -> None:
    assert groups_of_copies(["a b", "c", "A, B!", "?", "!", "?"]).tolist() == [0, 1, 0, 2, 3, 2]
    assert groups_of_copies(["a", "b", "c"]) is None
    assert groups_of_copies(["a", "b", "b"], ["b", "c", "A"]).tolist() == [0, 1, 0]
    assert number_of_copies(None) == 0
    assert number_of_copies(np.array([0, 1, 0, 0])) == 2
    assert distinct_texts(["a b", "c", "A, B!"]) == ["a b", "c"]


@pytest.mark.parametrize("times", [2, 5])
def test_copies_of_texts_with_random_labels_score_like_the_texts(
    times: int, caplog: pytest.LogCaptureFixture
) -> None:
    once = classified(random_labels(1))
    assert not caplog.records
    assert once.copies == 0
    several = classified(random_labels(times))
    # By folds of rows, five copies score 0.98.
    assert several.accuracy < once.accuracy + 0.1
    assert several.copies == 90 * (times - 1)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"rows: {90 * (times - 1)} of {90 * times} texts are copies of others" in record.message


def test_no_classifier_has_seen_a_copy_of_the_text_that_it_is_tested_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen_with = []

    def predict(self: Logistic, x: object, y: object, tested: NDArray[np.float32]) -> object:
        seen_with.append({tuple(row) for row in x} & {tuple(row) for row in tested})  # type: ignore[attr-defined]
        return np.zeros(len(tested), np.int64)

    monkeypatch.setattr(Logistic, "_predict", predict)
    classified(random_labels(3))
    assert seen_with == [set()] * 10


def test_a_label_of_one_text_leaves_a_class_to_train_on() -> None:
    texts = [(f"word {number}", "b" if number == 7 else "a") for number in range(40)]
    rows = [LabelledSentence(*row) for row in texts]
    assert classified(TaskRows("classification", rows)).accuracy == 39 / 40


JUDGED = [(f"red {n}", f"green {n % 7} {n}", float(n % 4)) for n in range(60)]


@pytest.mark.parametrize("kind", ["similarity", "retrieval", "classification"])
def test_an_interval_is_as_wide_as_without_copies(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def width(times: int) -> float:
        rows: list[object] = []
        for first, second, score in JUDGED:
            for place, spelling in enumerate(spellings(first, times)):
                if kind == "similarity":
                    pair = (spelling, second) if place % 2 else (second, spelling)
                    rows.append(ScoredPair(*pair, score))
                elif kind == "retrieval":
                    rows.append(Pair(spelling, second))
                else:
                    rows.append(LabelledSentence(f"{second} {spelling}", str(score)))
        encoders = {"one": Fingerprints(0.5), "other": Fingerprints(20)}
        difference = compare(encoders, TaskRows(kind, rows)).differences[0]  # type: ignore[arg-type]
        return difference.high - difference.low

    alone = width(1)
    assert not caplog.records
    assert width(4) > 0.8 * alone
    assert "180 of 240" in caplog.text


def test_the_pairs_of_a_named_dataset_are_drawn_one_by_one(tmp_path: Path) -> None:
    (task,) = load_tasks("stsb-open:test")
    assert task.groups is None  # type: ignore[attr-defined]


def test_copies_of_pairs_make_no_calibration_surer(caplog: pytest.LogCaptureFixture) -> None:
    generator = np.random.default_rng(0)
    rows = []
    for number in range(80):
        shared = " ".join(generator.choice(list("abcdefgh"), 4))
        other = shared if number % 2 else " ".join(generator.choice(list("efghijkl"), 4))
        score = float(np.clip(4 * (number % 2) + generator.normal(0.5, 1), 0, 5))
        rows.append(ScoredPair(f"{shared} {number}", f"{other} x{number}", score))
    copies = [ScoredPair(f"{b}!", a.upper(), score) for a, b, score in rows]
    encoder = Fingerprints(0.2)
    once = calibrate(encoder, rows)  # type: ignore[arg-type]
    twice = calibrate(encoder, rows + copies)  # type: ignore[arg-type]
    assert (twice.pairs, twice.low) == (80, pytest.approx(once.low, abs=0.02))
    assert twice.high == pytest.approx(once.high, abs=0.02)
    assert "80 of 160 pairs are copies of others" in caplog.text


def test_a_query_that_is_its_own_answer_is_told(caplog: pytest.LogCaptureFixture) -> None:
    rows = [("one", "answer one"), ("two", "Two."), ("three", "answer three")]
    evaluate(Noisy(), TaskRows("retrieval", [Pair(*row) for row in rows]))
    (record,) = caplog.records
    assert record.message.startswith(
        "rows: 1 query answered by the same text, which every encoder finds"
    )


def test_no_copy_is_drawn_beside_its_text() -> None:
    texts = [spelling for n in range(30) for spelling in spellings(f"text {n}", 3)]
    assert sample_sentences(texts, 0) == [f"text {n}" for n in range(30)]
    chosen = chosen_pairs(encode_texts(texts, [Noisy(0.1)]), 10)
    assert len(chosen) == 10
    assert groups_of_copies([text for pair in chosen for text in pair]) is None
