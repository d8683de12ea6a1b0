"""Search by words: a query is text, and its ranking is the same with and without a text index."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.search import Document, Index
from isotune.use.search import store as store_module
from isotune.use.search.store import ReadError, Store, as_read_error

WORDS = ("lamp", "river", "united", "states", "or", "and", "text", "number7")
TEXTS = [" ".join((WORDS * 2)[i % 7 : i % 7 + 1 + i % 5]) + f" of place{i}" for i in range(40)]
OPERATORS = ("AND", "OR", "NOT", "TO", "and", "or")
# What query languages read as more than text; a word ends at each.
SIGNS = st.text(st.sampled_from('"+-*/\\^~?!&|(){}[]<>@#$%=,; '), max_size=3)


def made(folder: Path, indexed: int) -> Store:
    """A table of all texts, of which the text index has the first ones."""
    store = Store(folder, 2)
    for part in (slice(0, indexed), slice(indexed, len(TEXTS))):
        texts = TEXTS[part]
        if texts:
            rows = pa.table({"id": texts, "text": texts})
            store.put(rows, np.ones((len(texts), 2), np.float32))
        if part.start == 0 and texts:
            store.table.optimize()
    return store


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Store]:
    """The same rows without a text index, with one, and with one that lacks the last ten."""
    folder = tmp_path_factory.mktemp("stores")
    return [made(folder / str(indexed), indexed) for indexed in (0, len(TEXTS), len(TEXTS) - 10)]


def found(store: Store, query: str, where: str | None = None) -> list[str]:
    """The ids of all rows that a query finds, in alphabetical order."""
    return sorted(row["id"] for row in store.by_words(query, len(TEXTS), where))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SIGNS, st.sampled_from([*WORDS, *OPERATORS]), SIGNS), max_size=6))
def test_signs_and_operators_of_a_query_are_text(
    stores: list[Store], parts: list[tuple[str, str, str]]
) -> None:
    query = " ".join(before + word + after for before, word, after in parts)
    words = {word.lower() for _, word, _ in parts}
    expected = sorted(text for text in TEXTS if words.intersection(text.split()))
    for store in stores:
        assert found(store, query) == expected
        assert found(store, query, "id != 'x'") == expected


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_a_query_and_finds_the_same_rows(stores: list[Store], query: str) -> None:
    without, complete, partial = (found(store, query) for store in stores)
    assert without == complete == partial


def scored(store: Store, query: str) -> dict[str, float]:
    """The score of each row that a query finds."""
    words = store_module.lancedb().query.MatchQuery(query, "text")
    rows = store.table.search(words).limit(len(TEXTS)).select(["id", "_score"]).to_list()
    return {row["id"]: row["_score"] for row in rows}


@pytest.mark.parametrize("query", ["united states", '"united states"', "-lamp +river", "number7^9"])
def test_the_text_index_changes_no_score(stores: list[Store], query: str) -> None:
    without, complete, partial = (scored(store, query) for store in stores)
    assert without
    assert complete == pytest.approx(without, rel=1e-5)
    assert partial.keys() == without.keys()


def test_quotes_part_words_with_and_without_a_text_index(
    tmp_path: Path, encoder: Encoder, sentences: list[str]
) -> None:
    index = Index.create(tmp_path / "index", encoder)
    index.add(Document(f"{i}", text) for i, text in enumerate(sentences))
    index.add([Document("us", "history of the united states of america zyzzyva")])
    for _ in range(2):
        for options in ({}, {"where": "id != 'x'"}):
            hits: list[Any] = index.search('"zyzzyva history"', 3, hybrid=True, **options)
            assert "us" in [hit.id for hit in hits]
        index.store.table.optimize()


@pytest.mark.parametrize(
    ("error", "is_damage"),
    [
        (RuntimeError("lance error: Encountered corrupt file x: y, /root/a.rs:1:2"), True),
        (RuntimeError("lance error: LanceError(IO): file size is too small, /root/a.rs:1"), True),
        (RuntimeError("lance error: Not found: rows.lance/_versions/1.manifest"), True),
        (RuntimeError("lance error: LanceError(IO): Too many open files (os error 24)"), False),
        (OSError(13, "Permission denied"), False),
        (ValueError("Invalid input, position is not found but required"), False),
    ],
    ids=str,
)
def test_only_what_the_engine_calls_damage_is_called_so(error: Exception, is_damage: bool) -> None:
    with pytest.raises(ReadError) as refused, as_read_error(Path("folder")):
        raise error
    message = str(refused.value)
    assert message.startswith("folder: it can't be read (")
    assert ".rs" not in message
    assert refused.value.damaged == is_damage
    assert ("remove it and make the index again" in message) == is_damage


def test_a_filter_is_blamed_only_if_it_fails_alone(
    stores: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stores[0]
    with pytest.raises(InputError, match="filter 'text'"):
        store.by_words("lamp", 3, "text")

    def fail(*_: object) -> None:
        raise ValueError("Invalid input, the engine does not take this")

    monkeypatch.setattr(store_module, "rows_of", fail)
    with pytest.raises(ReadError, match=r"can't be read \(the engine does not take this\)$"):
        store.by_words("lamp", 3, "id != 'x'")


@pytest.mark.parametrize(
    ("rows", "more", "unindexed"), [(500, 1, 0), (500, 0, 500), (501, 500, 500), (501, 501, 0)]
)
def test_the_text_index_has_the_rows_from_the_size_at_which_it_helps(
    tmp_path: Path, rows: int, more: int, unindexed: int
) -> None:
    store = Store(tmp_path, 2)
    for start, end in ((0, rows), (rows, rows + more)):
        names = [str(number) for number in range(start, end)]
        store.put(pa.table({"id": names, "text": names}), np.ones((len(names), 2), np.float32))
        store.tend(finished=True)
    (index,) = store.table.list_indices()
    assert index.num_unindexed_rows == unindexed


@pytest.mark.parametrize("first", ["lake " * 255, "\u6c34" * 2000])
def test_the_first_words_of_a_long_query_are_looked_up(stores: list[Store], first: str) -> None:
    for store in stores:
        assert found(store, f"{first} place7") != found(store, first)
        assert found(store, f"{first} lake {'lake ' * 50} place7") == found(store, first)


def test_a_query_of_any_length_takes_no_longer_than_its_first_words(stores: list[Store]) -> None:
    query = " ".join(f"word{number}" for number in range(2_000_000 // 10))
    start = time.process_time()
    assert found(stores[0], query) == []
    assert time.process_time() - start < 1
