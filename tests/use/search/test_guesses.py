"""First guesses at an index: taken, or answered with what to write; and what a failure leaves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isotune.cli import main
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.search import Changes, Document, Index, read_documents

BEIR = {"_id": "d1", "title": "Lamps", "text": "a red lamp", "metadata": {}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a", "b"], "document 1: 'a' is a text without an id, .*; write {'id': '1', 'text': "),
        ([Document("1", "a"), "b"], "document 2: 'b' is a text without an id"),
        ([("1", "a")], r"document 1: a Document, or a dict with id and text, is needed, not \('1'"),
        ([Document("1", "a"), {"id": "2", "text": "b"}], "document 2: a Document, or a dict"),
        ("notes.txt", r"write read_documents\('notes.txt'\) to add the rows of a file"),
        (Path("notes.txt"), r"write read_documents\('notes.txt'\)"),
        ({"id": "1", "text": "a"}, "give a list, also of one document or row"),
        (Document("1", "a"), "give a list, also of one document or row"),
        (5, "documents: .* is needed, not 5"),
    ],
)
def test_what_is_no_document_is_answered_with_what_to_write(
    index: Index, given: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        index.add(given)
    assert len(index) == 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"top_k": 3}, "search has no argument 'top_k'; write k=... instead; it takes query, k, "),
        ({"limit": 3}, "search has no argument 'limit'; write k=... instead"),
        ({"filter": "year = 1"}, "search has no argument 'filter'; write where=... instead"),
        ({"rerank": True}, "search has no argument 'rerank'; it takes query, k, where, hybrid, "),
    ],
    ids=str,
)
def test_other_names_of_arguments_are_answered_with_the_right_ones(
    index: Index, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        index.search("a dog", **arguments)


def test_several_queries_at_once_are_answered(index: Index) -> None:
    queries: Any = ["a dog", "a cat"]
    with pytest.raises(InputError, match=r"query: a text is needed, not \['a dog', 'a cat'\]"):
        index.search(queries)


@pytest.mark.parametrize("others", [(), ("bert-tiny",), (None,)], ids=str)
def test_a_call_of_the_class_is_answered(index: Index, others: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match=r"write Index\.open\('folder'\) to open an index, or"):
        Index("folder", *others)  # type: ignore[arg-type]


def test_a_corpus_of_beir_is_answered_with_the_flag_and_then_taken(
    tmp_path: Path, encoder: Encoder, capsys: pytest.CaptureFixture[str], tiny_model: Path
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps(BEIR) + "\n")
    command = ["index", str(tiny_model), str(corpus), "--out", str(tmp_path / "ix")]
    assert main(command) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "column '_id': " in said
    assert said.endswith("tells the rows apart: --id _id (in Python id_column='_id')")
    assert main([*command, "--id", "_id"]) == 0
    (row,) = Index.open(tmp_path / "ix", encoder).store.first(5)
    assert (row["id"], row["title"], row["metadata"]) == ("d1", "Lamps", {})


def fail(index: Index) -> None:
    """A first command that fails before a row is written, but after the columns."""
    rows = [Document("1", "a", {"year": 1}), Document("1", "b")]
    with pytest.raises(InputError, match="two rows have the id"):
        index.add(rows)


def stop(index: Index) -> None:
    """A first command that ends when the columns are there and no row is."""

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    put = index.store.put
    index.store.put = stopped  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        index.add([Document("1", "a", {"year": "text", "other": [1.5]})])
    index.store.put = put  # type: ignore[method-assign]
    assert index.store.columns == ["year", "other"]


@pytest.mark.parametrize("end", [fail, stop])
@pytest.mark.parametrize("other", ["the same", "cls", "bert-tiny"])
def test_what_a_failed_first_command_leaves_hinders_no_other_encoder_and_no_other_columns(
    tmp_path: Path, tiny_model: Path, end: Callable[[Index], None], other: str
) -> None:
    folder = tmp_path / "index"
    end(Index.create(folder, tiny_model))
    second: str | Encoder = str(tiny_model)
    if other == "cls":
        second = Encoder.load(tiny_model, pooling="cls")
    if other == "bert-tiny":
        second = other
    index = Index.open(folder, second)
    assert index.search("a dog", hybrid=True) == []
    assert index.add([Document("1", "a dog", {"year": 1990})]) == Changes(1, 0, 0)
    assert index.store.columns == ["year"]
    found = Index.open(folder, second).search("a dog", where="year = 1990", hybrid=True)
    assert [(hit.id, hit.columns) for hit in found] == [("1", {"year": 1990})]
    assert found[0].cosine == pytest.approx(1, abs=1e-5)


def test_rows_of_another_process_keep_their_encoder(tmp_path: Path, tiny_model: Path) -> None:
    folder = tmp_path / "index"
    first = Index.create(folder, tiny_model)
    late = Index.open(folder, Encoder.load(tiny_model, pooling="cls"))
    first.add([Document("1", "a dog")])
    with pytest.raises(InputError, match="its vectors are of the encoder"):
        late.add([Document("2", "a cat")])
    with pytest.raises(InputError, match="its vectors are of the encoder"):
        late.search("a dog")
    assert len(first) == 1


def test_the_same_words_at_the_command_line(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, right = tmp_path / "wrong.jsonl", tmp_path / "right.jsonl"
    wrong.write_text('{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n')
    right.write_text('{"id": 1, "text": "a red dog"}\n')
    out = str(tmp_path / "index")
    assert main(["index", str(tiny_model), str(wrong), "--out", out]) == 2
    assert "--id COLUMN" in capsys.readouterr().err
    command = ["index", "bert-tiny", str(right), "--out", out, "--precision", "float32"]
    assert main(command) == 0
    assert main(["search", out, "a dog"]) == 0
    assert "a red dog" in capsys.readouterr().out


@pytest.mark.parametrize(
    "rows", [[{"text": "a"}], read_documents([[{"text": "a"}]])], ids=["a list", "documents"]
)
def test_rows_without_ids_are_refused(index: Index, rows: Any) -> None:
    with pytest.raises(InputError, match=r"^<rows>:1: no id, by which the index finds"):
        index.add(rows)


def test_ids_of_a_table_in_memory_may_be_in_any_column(index: Index) -> None:
    assert index.add(read_documents([[BEIR | {"_id": "new"}]], id_column="_id")) == Changes(1, 0, 0)
