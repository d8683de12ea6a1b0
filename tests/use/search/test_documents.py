"""Documents read from files: ids, texts and all other columns."""

from pathlib import Path

import pytest

from isotune.errors import InputError
from isotune.use.search import Document, read_documents


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_an_id_column_the_id_is_the_file_and_line() -> None:
    Path("a.txt").write_text("one\n\n two \n")
    Path("b.jsonl").write_text('{"text": "three", "year": 1999}\n')
    assert list(read_documents(["a.txt", "b.jsonl"])) == [
        Document("a.txt:1", "one"),
        Document("a.txt:3", "two"),
        Document("b.jsonl:1", "three", {"year": 1999}),
    ]


def test_an_id_column_and_a_text_column() -> None:
    Path("a.csv").write_text("id,body,lang\n7,one,en\n8,two,de\n")
    expected = [
        Document("7", "one", {"lang": "en"}, "a.csv:2"),
        Document("8", "two", {"lang": "de"}, "a.csv:3"),
    ]
    assert list(read_documents("a.csv", {"sentence": "body"})) == expected
    (first, _) = read_documents("a.csv", {"sentence": "body"}, "lang")
    assert first == Document("en", "one", {"id": "7"}, "a.csv:2")
    Path("b.jsonl").write_text('{"id": 0, "text": "zero"}\n')
    assert list(read_documents("b.jsonl")) == [Document("0", "zero", {}, "b.jsonl:1")]


def test_each_text_column_gives_a_document() -> None:
    Path("a.tsv").write_text("sentence1\tsentence2\tlabel\none\ttwo\t1\nthree\t\t0\n")
    assert list(read_documents("a.tsv")) == [
        Document("a.tsv:2:sentence1", "one", {"label": "1"}),
        Document("a.tsv:2:sentence2", "two", {"label": "1"}),
        Document("a.tsv:3:sentence1", "three", {"label": "0"}),
    ]


def test_the_rows_of_a_named_dataset() -> None:
    first = next(read_documents("stsb-open:dev"))
    assert first.text
    assert "score" in first.columns


@pytest.mark.parametrize(
    ("content", "id_column", "message"),
    [
        ('{"text": "a"}', "key", "a.jsonl:1: no column 'key'; it has 'text'"),
        ('{"text": "a"}\n{"txt": "b"}', None, "a.jsonl:2: no column 'text'; it has 'txt'"),
        ('{"text": "a", "id": " "}', None, "a.jsonl:1: id is blank; each row needs an id"),
    ],
)
def test_documents_that_are_refused(content: str, id_column: str | None, message: str) -> None:
    Path("a.jsonl").write_text(content)
    with pytest.raises(InputError, match=message):
        list(read_documents("a.jsonl", id_column=id_column))
