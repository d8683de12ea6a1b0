"""`isotune index`, `search` and `rows`."""

import json
import re
import shutil
from contextlib import chdir
from pathlib import Path

import pytest

from isotune.cli import main
from isotune.encoder.encoder import Encoder
from tests.cli.conftest import Call, Refused


@pytest.fixture(scope="module")
def made(tiny_model: Path, sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, a text, and the index of both that the tests of this file share."""
    folder = tmp_path_factory.mktemp("made")
    with chdir(folder):
        write_table(sentences)
        Path("more.txt").write_text("the man sees a cat\n")
        assert main(["index", str(tiny_model), "t.jsonl", "more.txt"]) == 0
    return folder


@pytest.fixture
def index(made: Path) -> str:
    """A copy of that folder's files; the name of the index of 31 rows."""
    shutil.copytree(made, ".", dirs_exist_ok=True)
    return "index"


def write_table(sentences: list[str]) -> Path:
    """Thirty rows with a language."""
    lines = []
    for number, text in enumerate(sentences[:30]):
        language = "de" if number % 2 else "en"
        lines.append(json.dumps({"text": text, "lang": language}) + "\n")
    path = Path("t.jsonl")
    path.write_text("".join(lines))
    return path


def test_only_new_rows_are_added_to_an_index(
    isotune: Call, tiny_model: Path, sentences: list[str]
) -> None:
    table = write_table(sentences)
    first = isotune("index", tiny_model, table).out
    assert first == "index: 30 rows; 30 added, 0 replaced, 0 there already\n"
    Path("more.txt").write_text("the man sees a cat\n")
    again = isotune("index", tiny_model, table, "more.txt").out
    assert again == "index: 31 rows; 1 added, 0 replaced, 30 there already\n"


def test_an_index_of_an_index_tells_what_the_encoder_changes(
    isotune: Call, tiny_model: Path, index: str
) -> None:
    out = isotune("index", tiny_model, index, "--out", "same").out
    assert out.startswith("31 of 31 texts of index keep their nearest text")
    assert out.endswith("same: 31 rows; 31 added, 0 replaced, 0 there already\n")


def test_a_search_prints_each_hit_with_its_columns(isotune: Call, index: str) -> None:
    code, out, err = isotune("search", index, "the man sees a cat", "-k", "2")
    assert (code, err) == (0, "")
    titles, first, below, second, columns = out.splitlines()
    assert titles.split() == ["rank", "cosine", "text"]
    assert first.split() == ["1", "1.000", "the", "man", "sees", "a", "cat"]
    assert below.split() == ["more.txt:1", "lang=None"]
    assert second.split()[0] == "2"
    assert float(second.split()[1]) < 1
    assert columns.split()[0].startswith("t.jsonl:")


def test_a_hybrid_search_names_the_score_that_it_is_ordered_by(isotune: Call, index: str) -> None:
    titles, *lines = isotune("search", index, "the man sees a cat", "--hybrid").out.splitlines()
    assert titles.split() == ["rank", "joined", "cosine", "text"]
    scores = [float(line.split()[1]) for line in lines if re.match(r" +\d+ +0\.0", line)]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)
    # The text itself is first by vectors and by words.
    assert scores[0] == round(2 / 61, 4)


def test_of_a_long_text_the_part_with_the_words_is_shown(
    isotune: Call, tiny_model: Path, tmp_path: Path
) -> None:
    text = f"{'a dog eats ' * 60}the {'wide ' * 2}Zebra, and a yak {'in the house ' * 60}".strip()
    row = {"text": text, "note": "n" * 500}
    Path("long.jsonl").write_text(json.dumps(row) + "\n")
    assert isotune("index", tiny_model, "long.jsonl").code == 0
    for flags in ([], ["--hybrid"]):
        out = isotune("search", "index", "wide zebra with a yak", "-k", "1", *flags).out
        assert max(map(len, out.splitlines())) <= 80
        assert len(out.splitlines()) <= 6
        assert "wide Zebra" in out
        (hit,) = json.loads(isotune("search", "index", "zebra", "--json", *flags).out)["hits"]
        assert hit["text"] == text


def test_a_hybrid_search_tells_how_many_rows_fit_the_filter(isotune: Call, index: str) -> None:
    where = "lang = 'de' and id < 't.jsonl:2'"
    _, out, err = isotune("search", index, "cat", "--hybrid", "--where", where)
    assert out.count("lang=de") == 5
    assert err == "5 of 10: no other row fits --where\n"


def test_a_hit_as_json(isotune: Call, index: str) -> None:
    out = isotune("search", index, "the man sees a cat", "-k", "1", "--json").out
    (hit,) = json.loads(out)["hits"]
    assert hit.pop("cosine") == pytest.approx(1, abs=1e-5)
    assert hit == {
        "id": "more.txt:1",
        "text": "the man sees a cat",
        "columns": {"lang": None},
        "joined": None,
        "probability": None,
    }


def test_the_rows_that_fit_a_filter_as_json(isotune: Call, index: str) -> None:
    out = isotune("rows", index, "-k", "3", "--where", "lang = 'de'", "--json").out
    described = json.loads(out)
    listed = described.pop("listed")
    assert [row["lang"] for row in listed] == ["de"] * 3
    counts = {name: described[name] for name in ("rows", "fitting", "columns")}
    assert counts == {"rows": 31, "fitting": 15, "columns": ["id", "text", "lang"]}


def test_the_rows_that_fit_a_filter_are_described(isotune: Call, index: str) -> None:
    out = isotune("rows", index, "-k", "3", "--where", "lang = 'en'").out
    assert out.splitlines()[0] == "rows      31"
    assert "columns   id, text, lang" in out
    assert "fitting   15" in out
    assert "t.jsonl:5" in out


def test_the_rows_that_fit_a_filter_are_deleted(isotune: Call, index: str) -> None:
    out = isotune("rows", index, "--where", "lang = 'en'", "--delete").out
    assert out == "index: 15 rows deleted, 16 left\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "search nowhere a",
            "nowhere: no index; make one with isotune index ENCODER FILE --out nowhere",
        ),
        ("rows index --delete", "--delete needs --where"),
        ("rows index -k -1", "-k -1"),
        ("index MODEL", "FILE is missing"),
        ("index MODEL index --out new --id key", "an index has its columns and ids already"),
        ("index MODEL index more.txt", "name no other file with it"),
        (
            "index MODEL t.jsonl --columns.sentence text",
            "write FIELD=COLUMN, such as sentence=body.",
        ),
    ],
)
@pytest.mark.usefixtures("index")
def test_what_commands_of_an_index_refuse(
    refused: Refused, tiny_model: Path, words: str, message: str
) -> None:
    given = [str(tiny_model) if word == "MODEL" else word for word in words.split()]
    assert message in refused(*given)


def test_rows_may_be_added_in_another_precision(
    isotune: Call, tiny_model: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    precisions, load = [], Encoder.load

    def recorded(path: str, *, precision: str | None = None, **others: None) -> Encoder:
        precisions.append(precision)
        return load(path, precision=precision, **others)

    monkeypatch.setattr(Encoder, "load", recorded)
    Path("other.txt").write_text("the dog sees a cat\n")
    words = ("index", tiny_model, "other.txt", "--out", index, "--precision", "bfloat16")
    assert isotune(*words).code == 0
    assert precisions == ["bfloat16"]


def test_an_index_remembers_how_many_features_its_vectors_have(
    isotune: Call, refused: Refused, tiny_model: Path, sentences: list[str]
) -> None:
    table = write_table(sentences)
    words = ["index", tiny_model, table]
    assert isotune(*words, "--dimensions", 8).code == 0
    Path("more.txt").write_text("the man sees a cat\n")
    assert isotune(*words, "more.txt").out.startswith("index: 31 rows; 1 added")
    _, first, *_ = isotune("search", "index", "the man sees a cat", "-k", 1).out.splitlines()
    assert first.split()[:2] == ["1", "1.000"]
    line = refused(*words, "--dimensions", 16)
    assert "index: its vectors have 8 features, not 16; give dimensions 8 or none" in line


def test_an_index_of_smaller_vectors_says_how_many_of_the_nearest_rows_it_finds(
    isotune: Call, tiny_model: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.use.search.store.FEWEST_QUANTIZED", 30)
    words = ["index", tiny_model, write_table(sentences)]
    rows, same = isotune(*words, "--vectors", "int8").out.splitlines()
    assert rows == "index: 30 rows; 30 added, 0 replaced, 0 there already"
    assert same == "by int8 vectors, 100.0% of the ten nearest rows are the same"
    assert len(isotune(*words, "--vectors", "float32").out.splitlines()) == 1
