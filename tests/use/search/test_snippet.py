"""The part of a found text that is shown."""

from random import Random
from time import perf_counter

import pytest

from isotune.use.search.snippet import find, snippet, words_of

FILLER = "lorem ipsum dolor sit amet"


def test_a_short_text_is_shown_whole_in_one_line() -> None:
    assert snippet("one\n two\tthree", words_of("two"), 20) == "one two three"


@pytest.mark.parametrize("size", [20, 60, 200])
def test_a_snippet_is_a_part_of_the_text_about_as_long_as_asked(size: int) -> None:
    random = Random(size)
    for _ in range(200):
        words = random.choices(["a", "word", "Österreich", "x" * 30, "42"], k=random.randint(1, 80))
        text = " ".join(words)
        shown = snippet(text, words_of("österreich 42"), size)
        assert len(shown) <= size + 2
        assert shown.strip("… ") in text


def test_the_part_with_most_different_words_is_shown() -> None:
    text = f"river river river {FILLER * 9} bank {FILLER * 9} the river bank {FILLER * 9}"
    assert "the river bank" in snippet(text, words_of("river bank"), 80)
    assert snippet(text, words_of("nothing of it"), 80).startswith("river")


def test_short_words_count_only_where_a_query_has_no_others() -> None:
    text = f"who is it {FILLER * 9} pneumonia {FILLER * 9}"
    assert "pneumonia" in snippet(text, words_of("who is pneumonia"), 60)
    assert snippet(text, words_of("who is it"), 60).startswith("who is it")


@pytest.mark.parametrize("query", ["", "?!", "a.*b (", "\\"])
def test_signs_of_a_query_have_no_meaning(query: str) -> None:
    assert snippet(f"start {FILLER * 20}", words_of(query), 30).startswith("start")


def test_texts_without_spaces_are_cut_too() -> None:
    shown = snippet("漢" * 500 + "字典" + "漢" * 500, words_of("字典"), 60)
    assert 55 < len(shown) <= 62


def test_words_are_found_whole_and_in_any_case() -> None:
    found = find(words_of("ÉCOLE Straße stone"), "école écoles STRASSE stones (Stone)")
    assert [match[0] for match in found] == ["école", "STRASSE", "Stone"]


@pytest.mark.parametrize("query", ["a" * 10**6, " ".join(map(str, range(10**5)))])
def test_the_words_of_a_query_that_is_a_document_are_found_in_no_time(query: str) -> None:
    began = perf_counter()
    text = f"99998 {FILLER * 20} 99999 99998"
    assert snippet(text, words_of(query), 60)
    assert perf_counter() - began < 2
