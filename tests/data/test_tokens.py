"""The token store and the order of batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isotune.data import Pair, Sentence
from isotune.data.tokens import BatchOrder, TokenStore
from tests.data.test_packed import unpack


def tokenize(texts: list[str]) -> list[list[int]]:
    """A token a letter, at most 5."""
    return [[ord(letter) for letter in text[:5]] for text in texts]


def test_rows_come_back_as_packed_batches(tmp_path: Path) -> None:
    rows = [Pair("a", "bb"), Pair("ccc", "d"), Pair("eeeeeee", "f"), Pair("a", "bb")]
    store = TokenStore.build(iter(rows), Pair, tokenize, 5, tmp_path)
    first, second = store.pack(np.array([2, 0]))
    assert unpack(first) == tokenize(["eeeeeee", "a"])
    assert unpack(second) == tokenize(["f", "bb"])
    assert len(store) == 4
    found = store.fingerprint
    assert (found.rows, found.sentences, found.distinct, found.tokens, found.cut) == (4, 8, 6, 16, 1)
    assert list(tmp_path.iterdir()) == []  # the ids are in a file without a name


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Sentence("x" * (1 + i % 4) + str(i)) for i in range(25)]
    whole = TokenStore.build(rows, Sentence, tokenize, 5)
    monkeypatch.setattr("isotune.data.tokens.CHUNK_ROWS", 4)
    parts = TokenStore.build(rows, Sentence, tokenize, 5)
    assert parts.fingerprint == whole.fingerprint
    assert unpack(parts.pack(np.arange(25))[0]) == unpack(whole.pack(np.arange(25))[0])
    assert TokenStore.build(rows[::-1], Sentence, tokenize, 5).fingerprint.sha256 != whole.fingerprint.sha256


def test_an_epoch_reads_every_row_once_in_an_order_of_its_own() -> None:
    order = BatchOrder(rows=23, batch_size=5, seed=3)
    epochs = [np.concatenate([order[4 * epoch + k] for k in range(4)]) for epoch in range(9)]
    for epoch in epochs:
        assert len(epoch) == len(set(epoch.tolist())) == 20
        assert set(epoch.tolist()) <= set(range(23))
    assert not np.array_equal(epochs[0], epochs[1])
    assert set().union(*(epoch.tolist() for epoch in epochs)) == set(range(23))  # no row always sits out


def test_a_step_needs_no_steps_before_it() -> None:
    order = BatchOrder(100, 8, seed=1)
    forward = [order[k].tolist() for k in range(30)]
    assert [BatchOrder(100, 8, seed=1)[k].tolist() for k in reversed(range(30))] == forward[::-1]
    assert BatchOrder(100, 8, seed=2)[0].tolist() != forward[0]
