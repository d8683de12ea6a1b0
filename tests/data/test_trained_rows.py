"""The hashes of the rows that a run was trained on."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from isotune.data import LabelledSentence, Pair, Row, ScoredPairs, Sentence, Triplet
from isotune.data import trained_rows as module
from isotune.data.trained_rows import TrainedRows, find_trained, read_hashes


def saved(path: Path, rows: Sequence[Row]) -> Path:
    trained = TrainedRows()
    assert list(trained.watch(rows, type(rows[0]))) == rows
    trained.save(path)
    return path


def asked(pairs: Sequence[tuple[str, str]]) -> ScoredPairs:
    first, second = map(list, zip(*pairs, strict=True))
    return ScoredPairs("task", "", first, second, np.zeros(len(first)), ["task"] * len(first))


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def test_rows_are_found_in_any_order_case_and_punctuation(tmp_path: Path) -> None:
    """As by a search through all rows, letter by letter."""
    random = Random(0)

    def text() -> str:
        letter = random.choice("abcdé")
        return random.choice([letter, letter.upper(), f" {letter}!", f"({letter}{letter})"])

    rows = [Pair(text(), text()) for _ in range(12)]
    pairs = [(text(), text()) for _ in range(60)]
    found = 0
    for pair in pairs:
        found += any({*map(letters, pair)} == {*map(letters, row)} for row in rows)
    hashes = read_hashes(saved(tmp_path / "rows.npz", rows))
    assert 0 < found < 60
    assert find_trained(hashes, asked(pairs)) == (found, 60, False)


def test_a_text_with_a_label_and_each_pair_of_a_triplet_are_rows(tmp_path: Path) -> None:
    hashes = read_hashes(saved(tmp_path / "texts.npz", [LabelledSentence("a cat", "x")]))
    assert find_trained(hashes, asked([("A cat.", "A cat."), ("a dog", "a dog")])).rows == 1
    hashes = read_hashes(saved(tmp_path / "triplets.npz", [Triplet("a", "b", "c")]))
    assert find_trained(hashes, asked([("a", "b"), ("c", "a"), ("c", "b"), ("a", "a")])).rows == 3


def test_sentences_leave_no_file(tmp_path: Path) -> None:
    assert not saved(tmp_path / "rows.npz", [Sentence("a"), Sentence("b")]).exists()


@pytest.mark.parametrize("parts", [1, 4])
def test_of_many_rows_the_file_has_a_sample(
    parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if stages add their rows one after another."""
    monkeypatch.setattr(module, "MOST", 1000)
    rows: list[Row] = [Pair(f"question {row}", f"answer {row}") for row in range(8000)]
    for part in range(parts):
        saved(tmp_path / "rows.npz", rows[part::parts])
    hashes = read_hashes(tmp_path / "rows.npz")
    assert len(hashes) == 1000
    pairs = [(f"question {row}", f"answer {row}") for row in range(4000, 12_000)]
    found = find_trained(hashes, asked(pairs))
    assert found.is_estimate
    assert abs(found.rows - 4000) < 400


def test_the_file_holds_no_text(tmp_path: Path) -> None:
    path = saved(tmp_path / "rows.npz", [Pair("secret question", "secret answer")])
    assert path.stat().st_size < 500
    with np.load(path) as arrays:
        assert [arrays[name].dtype for name in arrays] == [np.uint64]
