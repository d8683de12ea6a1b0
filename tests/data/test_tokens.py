"""The token store and the order of batches."""

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from isotune.data import LabelledPair, Pair, ScoredPair, Sentence
from isotune.data.tokens import BatchSampler, TokenDataset, Tokenized
from isotune.errors import InputError
from tests.data.test_packed import unpack


def letters(texts: Sequence[str]) -> list[list[int]]:
    """A token a letter, at most 5."""
    return [[ord(letter) for letter in text[:5]] for text in texts]


def tokenize(columns: Sequence[list[str]]) -> Tokenized:
    return Tokenized([letters(texts) for texts in columns])


def test_rows_come_back_as_packed_batches(tmp_path: Path) -> None:
    rows = [Pair("a", "bb"), Pair("ccc", "d"), Pair("eeeeeee", "f"), Pair("a", "bb")]
    store = TokenDataset.build(iter(rows), Pair, tokenize, 5, tmp_path)
    first, second = store.pack(np.array([2, 0]))
    assert unpack(first) == letters(["eeeeeee", "a"])
    assert unpack(second) == letters(["f", "bb"])
    assert len(store) == 4
    assert astuple(store.fingerprint)[:5] == (
        4,
        8,
        6,
        16,
        1,
    )  # rows, sentences, distinct, tokens, cut
    assert list(tmp_path.iterdir()) == []  # the ids are in a file without a name


@pytest.mark.parametrize(
    ("rows", "constant"),
    [
        ([Pair("aaaaab", "c"), Pair("aaaaac", "c")] * 9, True),
        ([Pair("a", "bb"), Pair("ab", "b")], False),
        ([Pair("a", "b")] * 20 + [Pair("b", "b")], False),
        ([Pair("a", "b")], False),
    ],
)
def test_a_corpus_of_equal_tokens_is_known(
    rows: list[Pair], constant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.data.tokens.CHUNK_IDS", 8)
    assert TokenDataset.build(rows, Pair, tokenize, 5).is_constant() == constant


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Sentence("x" * (1 + i % 4) + str(i)) for i in range(25)]
    whole = TokenDataset.build(rows, Sentence, tokenize, 5)
    monkeypatch.setattr("isotune.data.tokens.CHUNK_ROWS", 4)
    parts = TokenDataset.build(rows, Sentence, tokenize, 5)
    assert parts.fingerprint == whole.fingerprint
    assert unpack(parts.pack(np.arange(25))[0]) == unpack(whole.pack(np.arange(25))[0])
    assert (
        TokenDataset.build(rows[::-1], Sentence, tokenize, 5).fingerprint.sha256
        != whole.fingerprint.sha256
    )


def test_an_epoch_reads_every_row_once_in_an_order_of_its_own() -> None:
    order = BatchSampler(rows=23, batch_size=5, seed=3)
    epochs = [np.concatenate([order[4 * epoch + k] for k in range(4)]) for epoch in range(9)]
    for epoch in epochs:
        assert len(epoch) == len(set(epoch.tolist())) == 20
        assert set(epoch.tolist()) <= set(range(23))
    assert not np.array_equal(epochs[0], epochs[1])
    assert set().union(*(epoch.tolist() for epoch in epochs)) == set(
        range(23)
    )  # no row always sits out
    for rows in range(5, 25):
        whole = BatchSampler(rows, batch_size=5, seed=3, whole_epochs=True)
        batches = [whole[k] for k in range(whole.steps_per_epoch)]
        left = [rows % 5] if rows % 5 > 1 else []  # a single row has nothing to be compared with
        assert [len(batch) for batch in batches] == [5] * (rows // 5) + left
        assert len(set(np.concatenate(batches).tolist())) == rows - (rows % 5 == 1)


def test_a_step_needs_no_steps_before_it() -> None:
    order = BatchSampler(100, 8, seed=1)
    forward = [order[k].tolist() for k in range(30)]
    assert [BatchSampler(100, 8, seed=1)[k].tolist() for k in reversed(range(30))] == forward[::-1]
    assert BatchSampler(100, 8, seed=2)[0].tolist() != forward[0]


def test_labels_are_numbered_in_the_order_of_the_classes_and_scores_kept() -> None:
    rows = [LabelledPair("a", "b", "no"), LabelledPair("c", "d", "yes")]
    store = TokenDataset.build(rows, LabelledPair, tokenize, 5, classes=("yes", "no"))
    assert store.targets.tolist() == [1, 0]
    with pytest.raises(InputError, match=r"^row 1 \('a'\): unknown label 'no'"):
        TokenDataset.build(rows, LabelledPair, tokenize, 5, classes=("yes",))

    scored = TokenDataset.build([ScoredPair("a", "b", 2.5)], ScoredPair, tokenize, 5)
    assert scored.targets.tolist() == [2.5]
    other = TokenDataset.build([ScoredPair("a", "b", 3.5)], ScoredPair, tokenize, 5)
    assert other.fingerprint.sha256 != scored.fingerprint.sha256


def test_texts_are_kept_if_asked_for() -> None:
    rows = [Pair("ä", "bb"), Pair("ccc", "d"), Pair("", "日本")]
    store = TokenDataset.build(
        rows, Pair, lambda columns: Tokenized([[[1]] * 3] * 2), 5, keep_text=True
    )
    assert store.sentences(np.array([2, 0])) == (["", "ä"], ["日本", "bb"])
    assert (
        TokenDataset.build(rows, Pair, lambda columns: Tokenized([[[1]] * 3] * 2), 5).sentences(
            np.array([0])
        )
        == ()
    )


def test_two_texts_as_one_sequence_have_types() -> None:
    def joined(columns: Sequence[list[str]]) -> Tokenized:
        first, second = map(letters, columns)
        return Tokenized(
            [[a + b for a, b in zip(first, second, strict=True)]], [len(a) for a in first]
        )

    rows = [Pair("abc", "de"), Pair("f", "g")]
    store = TokenDataset.build(rows, Pair, joined, 5)
    assert (store.columns, len(store)) == (1, 2)
    (packed,) = store.pack(np.array([0, 1]))
    assert packed.types.tolist() == [0, 1, 0, 0, 0, 1, 1]  # the shorter one first
    assert bytes(packed.ids.tolist()) == b"fgabcde"
