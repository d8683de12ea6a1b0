"""`isotune index`, `search` and `rows`."""

import json
from pathlib import Path

import pytest

from isotune.encoder.encoder import Encoder
from tests.cli.conftest import Call, Refused


@pytest.fixture
def table(sentences: list[str]) -> Path:
    """Thirty rows with a language."""
    rows = [
        {"text": text, "lang": "de" if i % 2 else "en"} for i, text in enumerate(sentences[:30])
    ]
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Path("t.jsonl")


def test_an_index_from_start_to_end(
    isotune: Call, refused: Refused, tiny_model: Path, table: Path
) -> None:
    assert (
        isotune("index", tiny_model, table).out
        == "index: 30 rows; 30 added, 0 replaced, 0 there already\n"
    )
    Path("more.txt").write_text("the man sees a cat\n")
    again = isotune("index", tiny_model, table, "more.txt").out
    assert again == "index: 31 rows; 1 added, 0 replaced, 30 there already\n"

    same = isotune("index", tiny_model, "index", "--out", "same").out
    assert same.startswith("31 of 31 texts of index keep their nearest text")
    assert same.endswith("same: 31 rows; 31 added, 0 replaced, 0 there already\n")
    code, out, err = isotune("search", "index", "the man sees a cat", "-k", "2")
    assert (code, err) == (0, "")
    first, below, second, columns = out.splitlines()
    assert first == "1.000  the man sees a cat"
    assert below.split() == ["more.txt:1", "lang=None"]
    assert float(second.split()[0]) < 1
    assert columns.split()[0].startswith("t.jsonl:")
    code, out, err = isotune(
        "search", "index", "cat", "--hybrid", "--where", "lang = 'de' and id < 't.jsonl:2'"
    )
    assert out.count("lang=de") == 5
    assert err == "5 of 10: no other row fits --where\n"

    described = json.loads(
        isotune("rows", "index", "-k", "3", "--where", "lang = 'de'", "--json").out
    )
    assert (described["rows"], described["fitting"], described["columns"]) == (
        31,
        15,
        ["id", "text", "lang"],
    )
    assert [row["lang"] for row in described["listed"]] == ["de"] * 3
    (hit,) = json.loads(isotune("search", "index", "the man sees a cat", "-k", "1", "--json").out)[
        "hits"
    ]
    assert hit.pop("cosine") == pytest.approx(1, abs=1e-5)
    assert hit == {
        "id": "more.txt:1",
        "text": "the man sees a cat",
        "columns": {"lang": None},
        "probability": None,
    }
    out = isotune("rows", "index", "-k", "3", "--where", "lang = 'en'").out
    assert out.splitlines()[0] == "rows      31"
    assert "columns   id, text, lang" in out
    assert "fitting   15" in out
    assert "t.jsonl:5" in out
    assert (
        isotune("rows", "index", "--where", "lang = 'en'", "--delete").out
        == "index: 15 rows deleted, 16 left\n"
    )

    for words, message in [
        (
            ["search", "nowhere", "a"],
            "nowhere: no index; make one with isotune index ENCODER FILE --out nowhere",
        ),
        (["rows", "index", "--delete"], "--delete needs --where"),
        (["rows", "index", "-k", "-1"], "-k -1"),
        (["index", tiny_model], "FILE is missing"),
        (
            ["index", tiny_model, "index", "--out", "new", "--id", "key"],
            "an index has its columns and ids already",
        ),
        (["index", tiny_model, "index", "more.txt"], "name no other file with it"),
        (
            ["index", tiny_model, table, "--columns.sentence", "text"],
            "write FIELD=COLUMN, such as sentence=body.",
        ),
    ]:
        assert message in refused(*words)


def test_rows_may_be_added_in_another_precision(
    isotune: Call, tiny_model: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isotune("index", tiny_model, table)
    precisions, load = [], Encoder.load

    def recorded(path: str, *, precision: str | None = None) -> Encoder:
        precisions.append(precision)
        return load(path, precision=precision)

    monkeypatch.setattr(Encoder, "load", recorded)
    Path("more.txt").write_text("the man sees a cat\n")
    assert isotune("index", tiny_model, "more.txt", "--precision", "bfloat16").code == 0
    assert precisions == ["bfloat16"]
