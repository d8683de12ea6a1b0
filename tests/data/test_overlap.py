"""Training text against evaluation sets."""

import unicodedata
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isotune.data import (
    LabelledPair,
    LabelledSentence,
    Pair,
    Row,
    ScoredPairs,
    Sentence,
    read,
    read_scored_pairs,
)
from isotune.data.overlap import Overlap, Shared
from isotune.data.rows import normalized


def pairs(*both: tuple[str, str]) -> ScoredPairs:
    first, second = ([pair[i] for pair in both] for i in range(2))
    return ScoredPairs("toy", "", first, second, np.zeros(len(both)), ["toy"] * len(both))


def shared(rows: list[Row], row: type[Row], **sets: ScoredPairs) -> dict[str, Shared]:
    overlap = Overlap(sets)
    assert list(overlap.watch(rows, row)) == rows
    return overlap.shared()


@given(st.text())
def test_normal_text_is_letters_and_digits(text: str) -> None:
    expected = "".join(
        character for character in text.casefold() if unicodedata.category(character)[0] in "LN"
    )
    assert normalized(text) == expected.encode()


def test_what_was_seen_is_counted_set_by_set() -> None:
    first = pairs(("A b.", "c d"), ("a b", "e f"), ("g", "c d"))
    second = pairs(("x", "c d"))
    rows: list[Row] = list(map(Sentence, ("a, b", "C D", "a b", "other")))
    assert shared(rows, Sentence, first=first, second=second) == {
        "first": Shared(2, 4, 1, 3, 0),
        "second": Shared(1, 2, 0, 1, 0),
    }
    none = {"first": Shared(0, 4, 0, 3, 0), "labelled": Shared(0, 1, 0, 0, 0)}
    assert shared([], Sentence, first=first, labelled=pairs(("g", "g"))) == none


def test_every_text_of_a_row_is_looked_at_and_nothing_else_and_punctuation_is_no_text() -> None:
    first = pairs(("a", "b"), ("label", "b"))
    assert shared([Pair("a", "b")], Pair, first=first)["first"] == Shared(2, 3, 1, 2, 1)
    assert shared([LabelledPair("a", "b", "label")], LabelledPair, first=first)["first"] == Shared(
        2, 3, 1, 2, 1
    )
    assert shared([LabelledSentence("a", "label")], LabelledSentence, first=first)[
        "first"
    ] == Shared(1, 3, 0, 2, 0)
    for row, labelled in ((LabelledSentence("a", "label"), 1), (Pair("a", "b"), 0)):
        assert shared([row], type(row), first=pairs(("a", "a")))["first"].rows == labelled
    assert shared([Sentence("?!")], Sentence, first=pairs(("...", "a")))["first"] == Shared(
        0, 1, 0, 1, 0
    )


def test_the_minbert_split_trains_on_test_pairs_of_stsb(real_data: Path) -> None:
    """953 rows of its training split are test pairs of STS-B.

    They are 947 of the 1,379 test pairs, some of them twice. The sentences of another 24 test pairs
    are there too, swapped or in two rows.
    """
    test = read_scored_pairs("stsb:test")
    official = list(map(Pair, test.sentence1, test.sentence2))
    rows = list(read("minbert-sts:train", Pair))
    assert sum(map(set(official).__contains__, rows)) == 953
    assert sum(map(set(rows).__contains__, official)) == 947
    assert shared(list(rows), Pair, stsb=test)["stsb"][:4] == (1840, 2550, 971, 1379)
    # The official training split has some of the test sentences too.
    assert shared(list(read("stsb:train", Pair)), Pair, stsb=test)["stsb"][:4] == (
        257,
        2550,
        62,
        1379,
    )
