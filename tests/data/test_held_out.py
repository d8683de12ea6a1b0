"""The share of a text that is held out."""

import pytest

from isotune.data.held_out import ONE_OF, is_held_out, without_held_out
from isotune.data.rows import Pair, Sentence
from isotune.errors import InputError

TEXTS = [f"Sentence number {number}." for number in range(4000)]


def test_the_share_is_that_which_is_said() -> None:
    share = sum(map(is_held_out, TEXTS)) / len(TEXTS)
    # Four standard deviations of a share of 4,000.
    assert abs(share - 1 / ONE_OF) < 4 * (ONE_OF * len(TEXTS)) ** -0.5


def test_copies_are_on_one_side() -> None:
    for text in TEXTS[:500]:
        assert is_held_out(text.upper().replace(" ", " - ")) == is_held_out(text)
    # Texts of no letter and no digit are not all copies of each other.
    assert len({is_held_out("?" * count) for count in range(1, 200)}) == 2


def test_a_row_stays_if_none_of_its_texts_is_held_out() -> None:
    kept = {text for text in TEXTS if not is_held_out(text)}
    rows = map(Sentence, TEXTS)
    assert [row.sentence for row in without_held_out(rows, Sentence, "x")] == [
        text for text in TEXTS if text in kept
    ]
    pairs = [Pair(*texts) for texts in zip(TEXTS[::2], TEXTS[1::2], strict=True)]
    left = [pair for pair in pairs if kept.issuperset(pair)]
    assert list(without_held_out(pairs, Pair, "x")) == left


def test_a_text_of_which_all_is_held_out_is_refused() -> None:
    held_out = map(Sentence, filter(is_held_out, TEXTS))
    with pytest.raises(InputError, match=r"a\.txt: every row is held out, as one of 20 different"):
        list(without_held_out(held_out, Sentence, "a.txt"))
