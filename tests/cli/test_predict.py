"""`isotune predict` writes each row of a file with what a classifier predicts for its text."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from isotune import Classifier, ClassifierHead, Encoder, HeadSettings, read
from isotune.data.rows import Sentence
from tests.cli.conftest import Call, Refused

LABELS = ("1", "2", "3")
ROWS = [
    {"id": "007", "text": "a dog eats, in the house", "stars": "2"},
    {"id": "8", "text": "", "stars": "1"},
    {"id": "9", "text": 'a "big" cat', "stars": "3"},
    {"id": "10", "text": "the man plays with a small ball", "stars": "1"},
]
TEXTS = [row["text"] for row in ROWS if row["text"]]


@pytest.fixture
def saved(tiny_model: Path) -> dict[str, Classifier]:
    """Classifiers of each kind, saved in folders of their names."""
    encoder = Encoder.load(tiny_model)
    saved = {}
    for name, settings in {
        "single": HeadSettings(kind="single", labels=LABELS),
        "multi": HeadSettings(kind="multi", labels=LABELS),
        "score": HeadSettings(kind="score"),
        "pairs": HeadSettings(kind="single", labels=LABELS, pairs=True),
    }.items():
        generator = np.random.default_rng(3)
        weights = generator.normal(size=(settings.width, encoder.dimension)).astype(np.float32)
        head = ClassifierHead(settings, weights, np.zeros(settings.width, np.float32))
        saved[name] = Classifier(encoder, head)
        saved[name].save(name)
    return saved


@pytest.fixture
def table() -> str:
    with open("rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    return "rows.csv"


def test_the_rows_are_printed_with_their_labels_and_probabilities(
    isotune: Call, saved: dict[str, Classifier], table: str
) -> None:
    code, out, _ = isotune("predict", "single", table)
    assert code == 0
    predicted = saved["single"].predict(TEXTS)
    chances = saved["single"].predict_proba(TEXTS).max(axis=1)
    lines = out.splitlines()
    assert lines[0].split() == ["predicted", "probability", "text"]
    for line, label, chance, text in zip(lines[2:], predicted, chances, TEXTS, strict=False):
        assert line.rstrip().split(maxsplit=2) == [label, f"{chance:.4f}", text]


def test_the_column_of_the_training_is_read_where_a_file_has_it(
    isotune: Call, saved: dict[str, Classifier], table: str
) -> None:
    head = saved["single"].head.with_columns(["review"])
    Classifier(saved["single"].encoder, head).save("learned")
    Path("reviews.csv").write_text("text,review\nno text,a dog\n")
    code, _, err = isotune("predict", "learned", "reviews.csv", "--out", "p.csv")
    assert code == 0
    assert "reviews.csv: the text is read from review, as in training\n" in err
    (row,) = csv.DictReader(Path("p.csv").read_text().splitlines())
    assert [row["predicted"]] == saved["single"].predict(["a dog"])
    # Another column that is named, and a file without the column, are read as before.
    named = isotune("predict", "learned", "reviews.csv", "--columns", "sentence=text")
    assert "as in training" not in named.err
    assert "no text" in named.out
    assert isotune("predict", "learned", table).out == isotune("predict", "single", table).out


def test_only_the_first_rows_are_printed(isotune: Call, saved: dict[str, Classifier]) -> None:
    Path("many.txt").write_text("\n".join(["a dog"] * 30))
    out = isotune("predict", "single", "many.txt").out
    assert out.count("a dog") == 20
    assert "the first 20 rows; --out FILE writes all" in out


@pytest.mark.parametrize("kind", ["single", "multi", "score"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_all_rows_are_written_with_their_columns(
    isotune: Call,
    saved: dict[str, Classifier],
    table: str,
    kind: str,
    suffix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    code, out, _ = isotune("predict", kind, table, "--out", f"out{suffix}")
    assert (code, out) == (0, f"out{suffix}: 3 rows, each with what is predicted\n")
    assert "1 blank text left out" in caplog.text
    match suffix:
        case ".jsonl":
            rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
        case ".parquet":
            rows = pq.read_table("out.parquet").to_pylist()
        case _:
            with open(f"out{suffix}") as file:
                delimiter = {".csv": ",", ".tsv": "\t"}[suffix]
                quoting = {".csv": csv.QUOTE_MINIMAL, ".tsv": csv.QUOTE_NONE}[suffix]
                rows = list(csv.DictReader(file, delimiter=delimiter, quoting=quoting))
    classifier = saved[kind]
    added = ["predicted"] if kind == "score" else ["predicted", "probability"]
    assert [list(row) for row in rows] == [["id", "text", "stars", *added]] * 3
    assert [row["text"] for row in rows] == TEXTS
    for row, expected in zip(rows, classifier.predict(TEXTS), strict=True):
        found = row["predicted"]
        if kind == "multi" and suffix in (".csv", ".tsv"):
            found = tuple(filter(None, found.split("|")))
        elif kind == "multi":
            found = tuple(found)
        elif kind == "score":
            assert float(found) == pytest.approx(expected, abs=1e-6)
            continue
        assert found == expected
    if kind == "single":
        chances = [float(row["probability"]) for row in rows]
        expected = classifier.predict_proba(TEXTS).max(axis=1)
        np.testing.assert_allclose(chances, expected, atol=1e-5)
    if suffix == ".csv":
        again = [row.sentence for row in read("out.csv", Sentence, {"sentence": "text"})]
        assert again == TEXTS


def test_pairs_of_columns_that_are_named(isotune: Call, saved: dict[str, Classifier]) -> None:
    Path("pairs.csv").write_text("q,a\na dog,a cat\nthe man,the woman\n")
    words = ("predict", "pairs", "pairs.csv", "--columns", "sentence1=q", "sentence2=a")
    out = isotune(*words, "--out", "out.jsonl").out
    assert "2 rows" in out
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    pairs = [("a dog", "a cat"), ("the man", "the woman")]
    assert [row["predicted"] for row in rows] == saved["pairs"].predict(pairs)
    assert "a dog | a cat" in isotune(*words).out


def test_what_cannot_be_predicted_is_refused_in_one_line(
    refused: Refused, saved: dict[str, Classifier], table: str, tiny_model: Path
) -> None:
    assert "it has no classifier, only an encoder" in refused("predict", tiny_model, table)
    assert "predictions are written as .csv, .tsv, .jsonl, .parquet" in refused(
        "predict", "single", table, "--out", "labels.npy"
    )
    Path("again.csv").write_text("text,predicted\na dog,1\n")
    assert "it has a column 'predicted' already" in refused("predict", "single", "again.csv")
    Path("two.csv").write_text("question,answer\na dog,a cat\n")
    assert "several texts in a row (question, answer)" in refused("predict", "single", "two.csv")
    Path("tab.jsonl").write_text('{"text": "a\\tdog"}\n')
    assert "which no cell of a .tsv can have" in refused(
        "predict", "single", "tab.jsonl", "--out", "out.tsv"
    )
    assert not Path("out.tsv").exists()
    assert "can't tell which columns hold sentence1, sentence2" in refused(
        "predict", "pairs", table
    )
    Path("empty.csv").write_text("text\n")
    assert "nothing in it but blank lines or a header" in refused(
        "predict", "single", "empty.csv", "--out", "out.parquet"
    )
