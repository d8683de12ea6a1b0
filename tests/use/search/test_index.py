"""An index: what a search gives, what a change does, and what is refused."""

import json
import tracemalloc
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from filelock import FileLock

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.search import Changes, Document, Index, store
from isotune.use.search import index as index_module

QUERY = "the dog eats a red ball"
NAMES = ("a.b", "_a", "a`b", "a\0", "\ud800", "*", "")  # that a column can't have


def expected_ids(encoder: Encoder, documents: list[Document], query: str = QUERY) -> list[str]:
    """The ids of all documents by their cosine to the query."""
    vectors = encoder.encode([document.text for document in documents], normalize=True)
    cosines = vectors @ encoder.encode(query, normalize=True)
    return [documents[i].id for i in np.argsort(-cosines)]


def test_a_search_gives_the_nearest_rows_with_all_their_columns(
    index: Index, encoder: Encoder, documents: list[Document]
) -> None:
    hits = index.search(QUERY, 5)
    assert [hit.id for hit in hits] == expected_ids(encoder, documents)[:5]
    vectors = encoder.encode([hit.text for hit in hits], normalize=True)
    np.testing.assert_allclose(
        [hit.cosine for hit in hits], vectors @ encoder.encode(QUERY, normalize=True), atol=1e-6
    )
    by_id = {document.id: document for document in documents}
    assert all(Document(hit.id, hit.text, hit.columns) == by_id[hit.id] for hit in hits)


def test_a_known_vector_needs_no_encoder(index: Index, encoder: Encoder) -> None:
    vector = encoder.encode(QUERY, normalize=True)
    reopened = Index.open(index.folder)  # its encoder has no name, so it can't be loaded
    assert reopened.search(QUERY, vector=vector) == index.search(QUERY)
    with pytest.raises(InputError, match="an encoder without a name; give the encoder"):
        reopened.search(QUERY)


def test_queries_and_documents_are_encoded_under_their_prompts(
    encoder: Encoder, tmp_path: Path
) -> None:
    asked = copy(encoder)
    asked.settings = {"prompts": {"query": "a dog ", "document": "a cat "}}
    index = Index.create(tmp_path / "roles", asked)
    index.add([Document("1", "a man")])
    (hit,) = index.search("a woman", 1)
    vectors = asked.encode_query("a woman"), asked.encode_document("a man")
    assert hit.cosine == pytest.approx(float(asked.similarity(*vectors)[0, 0]), abs=1e-6)


def test_a_filter_is_applied_before_the_nearest_are_chosen(
    index: Index, encoder: Encoder, documents: list[Document]
) -> None:
    some = [
        document
        for document in documents
        if document.columns["lang"] == "de" and document.columns["year"] == 1991
    ]
    hits = index.search(QUERY, 4, where="lang = 'de' AND year = 1991")
    assert [hit.id for hit in hits] == expected_ids(encoder, some)[:4]
    assert len(index.search(QUERY, 1000, where="id = 'd3'")) == 1
    assert index.search(QUERY, 4, where="year > 3000") == []


def test_hybrid_search_finds_a_rare_word(index: Index, encoder: Encoder) -> None:
    index.add([Document("rare", "zyzzyva " + "a big cat plays at the blue house . " * 3)])
    query = "zyzzyva"  # an unknown word to the encoder
    assert "rare" not in [hit.id for hit in index.search(query, 3)]
    assert "rare" in [hit.id for hit in index.search(query, 3, hybrid=True)]
    assert "rare" not in [
        hit.id for hit in index.search(query, 3, hybrid=True, where="lang = 'en'")
    ]
    assert (
        len(index.search("the", 7, hybrid=True)) == 7
    )  # a stop word, and more rows than words find


def test_rankings_are_fused_by_their_reciprocal_ranks() -> None:
    one, two, three, four = ({"id": name} for name in "1234")
    fused = index_module._fuse([one, two, three], [three, four])
    assert [row for row, _ in fused] == [three, one, two, four]
    # The constant of Cormack et al. (2009) is 60, and ranks count from 1.
    expected = [1 / 63 + 1 / 61, 1 / 61, 1 / 62, 1 / 62]
    assert [score for _, score in fused] == pytest.approx(expected)


def test_adding_again_changes_nothing_and_new_texts_and_columns_replace_rows(
    index: Index, documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []
    tokenize, version = index.encoder.tokenize, index.store.table.version  # type: ignore[attr-defined]
    monkeypatch.setattr(
        index.encoder, "tokenize", lambda texts: (encoded.extend(texts), tokenize(texts))[1]
    )
    assert index.add(documents) == Changes(0, 0, 60)
    assert index.store.table.version == version
    changed = [
        documents[0]._replace(text="a cat"),
        documents[1]._replace(columns={"lang": "fr", "year": 2000}),
    ]
    assert index.add([*changed, *documents[2:5], Document("new", "a man")]) == Changes(1, 2, 3)
    assert sorted(encoded) == sorted([documents[1].text, "a cat", "a man"])
    assert len(index) == 61
    rows = index.store.first(5, "id IN ('d0', 'new')")
    assert {row["id"]: row["text"] for row in rows} == {"d0": "a cat", "new": "a man"}
    assert index.search("a man", 1)[0].columns == {"lang": None, "year": None}
    assert index.search(documents[1].text, 1)[0].columns["lang"] == "fr"


@pytest.mark.parametrize("as_rows", [list, iter, pa.Table.from_pylist, pd.DataFrame])
def test_rows_with_ids_are_documents(
    index: Index, documents: list[Document], as_rows: Callable[[Any], Any]
) -> None:
    rows = [{"id": each.id, "text": each.text, **each.columns} for each in documents]
    rows[0]["text"] = "a red bird"
    assert index.add(as_rows([*rows, {**rows[1], "id": "new"}])) == Changes(1, 1, 59)


def test_new_columns_are_added_and_are_empty_in_older_rows(
    index: Index, documents: list[Document]
) -> None:
    new = Document(
        "new", "a man", {"tags": ["x", "y"], "empty": None, "share": float("nan"), "parts": [-0.0]}
    )
    assert index.add([*documents, new]) == Changes(1, 0, 60)
    assert index.add([new]) == Changes(0, 0, 1)
    assert index.store.columns == ["lang", "year", *new.columns]
    (hit,) = index.search(QUERY, where="tags IS NOT NULL")
    assert hit.columns == {"lang": None, "year": None, **new.columns, "share": None}


def test_deleted_rows_are_found_no_more(
    index: Index, encoder: Encoder, documents: list[Document]
) -> None:
    assert index.delete("lang = 'en' OR id = 'd1'") == 31
    left = [
        document
        for document in documents
        if document.columns["lang"] == "de" and document.id != "d1"
    ]
    assert [hit.id for hit in index.search(QUERY, 100)] == expected_ids(encoder, left)
    assert {hit.id for hit in index.search("a", 100, hybrid=True)} == {
        document.id for document in left
    }


def test_changes_of_another_index_object_are_seen(index: Index, encoder: Encoder) -> None:
    other = Index.open(index.folder, encoder)
    assert other.search("a man", 1)[0].id != "new"
    index.add([Document("new", "a man")])
    assert other.search("a man", 1)[0].id == "new"


def test_fragments_are_merged_and_new_rows_are_in_the_text_index(
    index: Index, documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FRAGMENTS", 3)
    for i in range(9):
        index.add([Document(f"new{i}", f"a dog number{i}")])
        assert index.store.table.stats()["fragment_stats"]["num_fragments"] <= 4
    assert index.search("number7", 1, hybrid=True)[0].id == "new7"
    monkeypatch.setattr(store, "UNINDEXED", 0)
    index.add([Document("last", "a cat")])
    (words,) = index.store.table.list_indices()
    assert (words.num_unindexed_rows, words.index_details["with_position"]) == (0, False)


def test_the_table_of_a_new_index_lies_on_the_disk_once(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FRAGMENTS", 1)
    made = Index.create(tmp_path / "index", encoder).store
    vectors = np.random.default_rng(0).standard_normal((1000, 32), np.float32)
    ids = [f"{row}" for row in range(1000)]
    rows = pa.table({"id": ids, "text": ids})
    for start in (0, 500):
        made.put(rows.slice(start, 500), vectors[start : start + 500])
    made.tend(finished=True)
    data = (tmp_path / "index").glob("rows.lance/data/*")
    assert vectors.nbytes < sum(path.stat().st_size for path in data) < 1.5 * vectors.nbytes


def test_an_index_is_not_read_into_memory(tmp_path: Path) -> None:
    description = {"encoder": None, "precision": None, "fingerprint": "", "dimension": 1000}
    (tmp_path / "index.json").write_text(json.dumps(description))
    index, ids = Index.open(tmp_path), [f"{row}" for row in range(5000)]
    vectors = np.random.default_rng(0).standard_normal((len(ids), 1000), np.float32)  # 20 MB
    index.store.put(pa.table({"id": ids, "text": ids}), vectors)
    tracemalloc.start()
    (hit,) = index.search("a", 1, vector=vectors[7])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert hit.id == "7"
    assert most < 5_000_000


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_vectors_with_numbers_that_are_not_finite_are_refused(index: Index, number: float) -> None:
    rows = pa.table({"id": ["a", "b"], "text": ["a dog", "a cat"]})
    vectors = np.eye(2, 32, dtype=np.float32)
    vectors[1, 7] = number
    with pytest.raises(
        InputError, match="row 'b': its vector has NaN or infinity, which can't be compared; give"
    ):
        index.store.put(rows, vectors)
    assert len(index) == 60


def test_the_encoder_is_loaded_by_its_name_and_another_is_refused(
    tiny_model: Path, encoder: Encoder, documents: list[Document], tmp_path: Path
) -> None:
    index = Index.create(tmp_path / "named", tiny_model)
    index.add(documents)
    assert Index.open(index.folder).search(QUERY) == index.search(QUERY)
    other = Encoder.load(tiny_model, pooling="cls")
    with pytest.raises(
        InputError, match=r"with the fingerprint .*; give that encoder, or make a new index"
    ):
        Index.open(index.folder, other)
    description = json.loads((index.folder / "index.json").read_text())
    assert description["fingerprint"] == encoder.fingerprint()
    (index.folder / "index.json").write_text(json.dumps(description | {"fingerprint": "0"}))
    with pytest.raises(InputError, match="fingerprint 0"):
        Index.open(index.folder).search(QUERY)


@pytest.mark.parametrize(
    ("where", "message"),
    [("year = 'x'", "could not convert"), ("lang", "does not return a boolean")],
)
def test_a_filter_that_is_refused(index: Index, where: str, message: str) -> None:
    for use in (
        index.delete,
        lambda where: index.search(QUERY, where=where),
        lambda where: index.store.first(1, where),
    ):
        with pytest.raises(InputError, match=message) as error:
            use(where)
        assert ".rs" not in str(error.value)
    assert len(index) == 60


def test_a_full_disk_is_no_fault_of_a_filter(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise ValueError("No space left on device")

    monkeypatch.setattr(type(index.store.table), "delete", full)
    with pytest.raises(InputError, match=r"it can't be written \(No space left on device\)"):
        index.delete("year > 0")


def test_what_is_refused(
    index: Index, encoder: Encoder, tmp_path: Path, documents: list[Document]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for call, message in [
        (lambda: index.search(" "), "the query is empty"),
        (lambda: index.search(QUERY, 0), "k 0: at least 1 row"),
        (lambda: index.add([documents[0], documents[0]]), "two rows have the id 'd0'"),
        (lambda: index.add([Document("\ud800", "a dog")]), "column 'id': .* can't be kept"),
        (
            lambda: index.add([Document("a", "b", {"vector": 1})]),
            "column 'vector': an index can't have",
        ),
        *(
            (partial(index.add, [Document("a", "b", {name: 1})]), "column .*: an index can't")
            for name in NAMES
        ),
        (
            lambda: index.add([Document("a", "b", {"year": "x"})]),
            "a: column 'year': 'x' can't be kept: .* has whole",
        ),
        (lambda: Index.create(tmp_path / "full" / "file", encoder), "it can't be written"),
    ]:
        with pytest.raises(InputError, match=message):
            call()  # type: ignore[operator]
    assert len(index) == 60


@pytest.mark.parametrize(
    "description", ["{}", "[]", '{"dimension": 8, "encoder": null, "fingerprint": "a"}', "{"]
)
def test_a_broken_description_is_refused(tmp_path: Path, description: str) -> None:
    (tmp_path / "index.json").write_text(description)
    with pytest.raises(InputError, match=r"index\.json: "):
        Index.open(tmp_path)


def test_the_rows_of_an_index_are_encoded_again_by_another_encoder(
    index: Index,
    tiny_model: Path,
    tmp_path: Path,
    documents: list[Document],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index.add([Document("empty", "a dog", {"lang": None, "year": None})])
    other = Encoder.load(tiny_model, pooling="cls")
    new = Index.create(tmp_path / "new", other)
    monkeypatch.setattr(index_module, "PART", 7)
    assert new.add_index(index) == Changes(61, 0, 0)
    assert new.add_index(index) == Changes(0, 0, 61)  # a command that was stopped goes on
    assert new.store.table.schema == index.store.table.schema
    by_id = {row["id"]: row for row in index.store.first(100)}
    vectors = other.encode([row["text"] for row in new.store.first(100)], normalize=True)
    for row, vector in zip(new.store.first(100), vectors, strict=True):
        np.testing.assert_allclose(row.pop("vector"), vector, atol=1e-6)
        assert row == {name: value for name, value in by_id[row["id"]].items() if name != "vector"}


def test_an_index_is_not_added_to_itself_and_not_while_it_is_locked(
    index: Index, encoder: Encoder, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="can't be added to itself"):
        index.add_index(Index.open(index.folder, encoder))
    new = Index.create(tmp_path / "new", encoder)
    for held in (new, index):
        with (
            FileLock(held.folder / "lock"),
            pytest.raises(InputError, match="another process is changing it"),
        ):
            new.add_index(index)
    assert (len(new), new.store.columns) == (0, [])


def test_one_process_makes_an_index_and_what_a_killed_process_left_is_no_index(
    index: Index, encoder: Encoder, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    Index.create(left, encoder)
    (left / "index.json").unlink()
    with FileLock(left / "lock"), pytest.raises(InputError, match="another process is changing it"):
        Index.create(left, encoder)
    assert len(Index.create(left, encoder)) == 0
    with pytest.raises(InputError, match="it exists already and is not empty"):
        Index.create(left, encoder)


def test_how_many_rows_keep_their_nearest_row(
    index: Index, encoder: Encoder, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Encoder.load(tiny_model, pooling="cls")
    texts = sorted({row["text"] for row in index.store.first(60)})
    assert index.kept_hits(encoder) == (len(texts), len(texts))
    hits = []
    for vectors in (encoder.encode(texts, normalize=True), other.encode(texts, normalize=True)):
        cosines = vectors @ vectors.T - 2 * np.eye(len(texts))
        hits.append([texts[i] for i in cosines.argmax(1)])
    expected = sum(old == new for old, new in zip(*hits, strict=True))
    assert expected < len(texts)
    kept, asked = index.kept_hits(other)
    assert (abs(kept - expected) <= 2, asked) == (
        True,
        len(texts),
    )  # texts may be equally near but for rounding
    monkeypatch.setattr(index_module, "ASKED", 10)
    assert index.kept_hits(other)[1] == 10


@pytest.mark.parametrize("name", ['a"b', "a'b", "a b", "a\nb", "A", "Text", "select", "犬"])
def test_a_column_with_an_unusual_name(index: Index, name: str) -> None:
    index.add([Document("new", "a man", {name: 1})])
    (hit,) = index.search("a man", where=f"`{name}` = 1")
    assert hit.columns[name] == 1
    assert index.add([Document("new", "a man", {name: 1})]) == Changes(0, 0, 1)


def test_what_was_committed_is_on_the_disk(
    tmp_path: Path, encoder: Encoder, documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    monkeypatch.setattr(store, "sync", synced.add)
    monkeypatch.setattr(store, "FRAGMENTS", 1)
    index = Index.create(tmp_path / "index", encoder)
    for count in (40, 60):
        index.add(documents[:count])
    index.delete("id = 'd0'")
    assert {
        index.folder,
        index.folder / "rows.lance",
        *(index.folder / "rows.lance").rglob("*"),
    } <= synced


def test_a_damaged_table_is_refused(index: Index, encoder: Encoder) -> None:
    description = index.folder / "index.json"
    before = description.read_text()
    description.write_text(before.replace('"dimension": 32', '"dimension": 16'))
    with pytest.raises(InputError, match="its vectors don't have the 16 features"):
        Index.open(index.folder, encoder)
    description.write_text(before)
    for path in (index.folder / "rows.lance" / "_versions").iterdir():
        path.unlink()
    with pytest.raises(
        InputError,
        match=r"it can't be read \(.*not found\); "
        "if it is damaged, remove it and make the index again",
    ):
        Index.open(index.folder, encoder)
