"""A look at a source: what is in it, and which commands fit."""

import csv
import gzip
import json
import re
import shlex
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import isotune
from isotune import InputError
from isotune.cli import main
from isotune.data.columns import Spread, describe_columns, scripts, spread
from isotune.recipes import read_recipe
from isotune.recipes.doors import FINISHED, MANY_LABELLED, MORE_STEPS, UNNAMED, UNNAMED_LABEL
from isotune.recipes.look import FIRST_ROWS, glance, look

WORDS = ("red", "lamp", "door", "water", "price", "order", "late", "broken", "box", "key")


def text(number: int, length: int) -> str:
    """A text of so many words that no other number has."""
    return " ".join(WORDS[(number // 10**place) % 10] for place in range(length))


def table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def kinds(**columns: Sequence[object]) -> dict[str, str]:
    """The kinds that columns of these values have."""
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {column.name: column.kind for column in describe_columns(records)}


def test_the_values_of_a_column_decide_what_is_in_it() -> None:
    rows = range(40)
    assert kinds(
        text=[text(row, 5) for row in rows],
        stars=[row % 5 for row in rows],
        topic=["news of the day" if row % 2 else "sport" for row in rows],
        price=[f"{row / 7:.3f}" for row in rows],
        key=[f"a{row}" for row in rows],
        picture=[f"images/{row}.png" for row in rows],
        page=[f"https://a.example/{row}" for row in rows],
        tags=[["a", "b"], [], ["b"], ["c", "a"]] * 10,
        counts=[[1, 2], [2]] * 20,
        captions=[[text(row, 5), text(row, 6)] for row in rows],
        vector=[[row / 7, row / 3] for row in rows],
        mask=[[1, 1, 1, 0, 0]] * 40,
        either=["a", ["a", "b"]] * 20,
        nested=[[["a"]]] * 40,
        day=[date(2026, 1, 1)] * 40,
        nothing=[None, float("nan"), " ", ""] * 10,
        chinese=[f"第{row}个句子" for row in rows],
        answers=[text(row % 4, 9) for row in rows],
    ) == {
        "text": "text",
        "stars": "labels",
        "topic": "labels",
        "price": "numbers",
        "key": "words",
        "picture": "paths",
        "page": "paths",
        "tags": "label lists",
        "counts": "label lists",
        "captions": "text lists",
        "vector": "other",
        "mask": "other",
        "either": "other",
        "nested": "other",
        "day": "other",
        "nothing": "empty",
        "chinese": "text",
        "answers": "text",
    }


def test_lists_of_numbers_that_repeat_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> str:
        raise AssertionError

    monkeypatch.setattr("isotune.data.columns.label_value", read)
    assert kinds(ids=[[101, 7, 7, 102], [101, 102]] * 20) == {"ids": "other"}


def test_labels_are_counted_and_texts_are_measured() -> None:
    values = [*("a?" for _ in range(3)), "b b b", "A!", "c c"]
    (texts,) = describe_columns([{"text": value} for value in values])
    assert (texts.filled, texts.different) == (6, 3)
    assert texts.questions == 0.5
    assert texts.characters == spread(list(map(len, values)))
    (labels,) = describe_columns([{"label": row % 3 // 2} for row in range(30)])
    assert labels.classes == (("0", 20), ("1", 10))
    (lists,) = describe_columns([{"label": [["a", "b"], ["b"], []][row % 3]} for row in range(30)])
    assert (lists.filled, lists.classes) == (30, (("b", 20), ("a", 10)))
    assert spread(list(range(101))) == Spread(5, 50, 95)


def test_scripts_are_shares_of_the_letters() -> None:
    shares = scripts(["ab1 .", "жшя", "漢漢漢", "ᚠᚠ"])
    assert shares == {"Cyrillic": 0.3, "Han": 0.3, "Latin": 0.2, "others": 0.2}
    assert scripts(["12 !"]) == {}


def test_blank_and_repeated_rows_are_counted(tmp_path: Path) -> None:
    rows = [("one a", "x y"), ("One, a!", "x y"), ("one a", "z y"), ("", "w y"), ("", "")]
    found = look(table(tmp_path / "pairs.csv", ("first", "second"), rows))
    assert (found.rows, found.blank, found.repeated) == (5, 2, 1)


# A kind of table by name: its header, a row of a number, and the words of the best commands.
TABLES = {
    "questions": (
        ("question", "answer"),
        lambda row: (f"{text(row, 5)}?", text(row // 2, 12)),
        ["--pairs question answer", ""],
    ),
    "titles": (
        ("id", "headline", "article"),
        lambda row: (row, text(row, 4), text(row, 60)),
        ["--pairs headline article", "--recipe crops"],
    ),
    "two unnamed texts": (
        ("one", "other"),
        lambda row: (text(row, 6), text(row + 1, 6)),
        ["--pairs one other", "sentence=one"],
    ),
    "reviews": (
        ("review", "shop", "stars"),
        lambda row: (text(row, 9), "AB"[row % 2], row % 5),
        ["--recipe classify --columns sentence=review label=stars", "--method classifier"],
    ),
    "scored pairs": (
        ("sentence1", "sentence2", "score"),
        lambda row: (text(row, 6), text(row + 1, 6), row % 11 / 2),
        ["isotune evaluate", "--recipe cosent"],
    ),
    "duplicates": (
        ("question1", "question2", "label"),
        lambda row: (text(row, 6), text(row + 1, 6), row % 2),
        ["--positive 1", ""],
    ),
    "inference": (
        ("premise", "hypothesis", "gold_label"),
        lambda row: (
            text(row // 3, 9),
            text(row, 6),
            ("entailment", "neutral", "contradiction")[row % 3],
        ),
        ["--recipe simcse-sup", ""],
    ),
    "triplets": (
        ("anchor", "positive", "negative"),
        lambda row: (text(row, 6), text(row + 1, 6), text(row + 2, 6)),
        ["--negatives", ""],
    ),
    "triplets of queries": (
        ("query", "pos", "neg"),
        lambda row: (text(row, 6), text(row + 1, 6), text(row + 2, 6)),
        ["anchor=query positive=pos negative=neg", ""],
    ),
    "queries": (
        ("id", "query", "positive", "source"),
        lambda row: (row, text(row, 6), text(row + 1, 6), text(row + 2, 6)),
        ["--pairs query positive", ""],
    ),
    "documents": (("body",), lambda row: (text(row, 50),), ["--recipe crops", "sentence=body"]),
    "sentences": (("text",), lambda row: (text(row, 6),), ["sentence=text", "--teachers"]),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_commands_for_a_table_run(
    kind: str, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command is one that `isotune train` understands; the best ones are those expected."""
    header, row, expected = TABLES[kind]
    source = table(tmp_path / "table.csv", header, [row(number) for number in range(200)])
    doors = look(source, tiny_model).doors
    for door, words in zip(doors, expected, strict=False):
        assert words in door.command
    assert len(doors) >= len(expected)
    for door in doors:
        program, command, *words = shlex.split(door.command)
        assert (program, *words[:1]) == ("isotune", source) or command == "evaluate"
        if command == "train":
            assert main(["train", *words, "--dry-run"]) == 0
            assert json.dumps(source) in capsys.readouterr().out


def test_more_steps_are_suggested_for_thousands_of_labelled_texts() -> None:
    rows: list[dict[str, object]] = [
        {"review": text(row, 9), "stars": row % 5} for row in range(MANY_LABELLED)
    ]
    best, *_ = look(rows).doors
    assert f"--steps {MORE_STEPS}" in best.command
    best, *_ = look([*rows[1:], {"review": "", "stars": 1}]).doors
    assert "--steps" not in best.command
    # Each column has enough values, but fewer rows have both.
    best, *_ = look([*rows[1:], {"review": "", "stars": 1}, {"review": "a", "stars": None}]).doors
    assert "--steps" not in best.command


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_lists_of_labels_are_for_a_classifier_of_several(
    ending: str, tmp_path: Path, tiny_model: Path
) -> None:
    lists = (["bill", "late"], [], ["late"])
    rows = [{"message": text(row, 6), "topics": lists[row % 3]} for row in range(300)]
    source = tmp_path / f"mail.{ending}"
    if ending == "jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), source)
    found = look(source, tiny_model)
    assert "topics: lists of 2 labels, the largest is 'late' with 67%" in str(found)
    best, *_ = found.doors
    _, *words = shlex.split(best.command)
    assert words[2:8] == [
        *("--method", "classifier", "--kind", "multi"),
        *("--columns", "sentence=message"),
    ]
    assert main([*words, "--dry-run"]) == 0


def test_commands_start_from_a_finished_encoder_of_the_script(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(text(row, 6) for row in range(100)), "utf-8")
    best, student = look(path).doors
    assert f"--model {FINISHED}" in best.command
    assert read_recipe("adapt")["gained"] in best.measured
    assert "--teachers" in student.command
    path.write_text("\n".join(f"номер {row}" for row in range(100)), "utf-8")
    found = look(path)
    assert all(UNNAMED in shlex.split(door.command) for door in found.doors)
    assert str(found).endswith(
        f"{UNNAMED} stands for an encoder that knows the languages of this script"
    )


def test_too_few_texts_are_not_trained_on(tmp_path: Path) -> None:
    source = table(tmp_path / "few.csv", ("body",), [[text(row, 5)] for row in range(3)])
    (door,) = look(source).doors
    assert door.command.startswith(f"isotune index {FINISHED} {source} --columns sentence=body")
    assert "3 different texts, and 64 or more are needed" in door.why


def test_blank_cells_that_a_command_refuses_are_told(tmp_path: Path) -> None:
    rows = [(f"{text(row, 5)}?", text(row, 12) if row % 50 else "") for row in range(200)]
    source = table(tmp_path / "faq.csv", ("question", "answer"), rows)
    pairs, *others = look(source).doors
    assert "--pairs question answer" in pairs.command
    assert pairs.why.endswith("Blank cells are refused: fill or delete 4 rows in answer first")
    assert not any("refused" in door.why for door in others)


def test_texts_that_seldom_stand_in_one_row_are_no_pairs(tmp_path: Path) -> None:
    rows = [(text(row, 5), "") if row % 3 else ("", text(row, 12)) for row in range(200)]
    source = table(tmp_path / "mixed.csv", ("title", "text"), rows)
    assert not any("--pairs" in door.command for door in look(source).doors)


@pytest.mark.parametrize("value", [1, True])
def test_a_single_column_without_text_has_no_tokens(value: object, tiny_model: Path) -> None:
    found = look([{"a": value}] * 99, tiny_model)
    assert found.cut is None
    assert "tokens" not in str(found)


def test_columns_with_commas_are_no_task(tmp_path: Path) -> None:
    rows = [(text(row, 6), text(row + 1, 6), row % 11 / 2) for row in range(200)]
    source = table(tmp_path / "pairs.csv", ("sentence1", "sentence2", "score, 0 to 5"), rows)
    best, *_ = look(source).doors
    assert "--recipe cosent" in best.command


def test_the_user_is_asked_for_a_label_that_nothing_tells(tmp_path: Path) -> None:
    rows = [(text(row, 6), text(row + 1, 6), ("yes", "no")[row % 2]) for row in range(200)]
    source = table(tmp_path / "pairs.csv", ("sentence1", "sentence2", "label"), rows)
    best, *_ = look(source).doors
    assert f"--positive {UNNAMED_LABEL} " in best.command
    assert f"in the place of {UNNAMED_LABEL}" in best.why


def test_no_command_fits_without_text(tmp_path: Path) -> None:
    source = table(tmp_path / "numbers.csv", ("a", "b"), [[row / 3, row] for row in range(99)])
    found = look(source)
    assert found.doors == ()
    assert str(found).endswith("no command fits: a column of text is needed")


def test_a_first_line_of_texts_is_told(tmp_path: Path) -> None:
    rows = [(text(row, 5), text(row, 6)) for row in range(99)]
    named = str(look(table(tmp_path / "a.csv", ("one", "two"), rows)))
    unnamed = str(look(table(tmp_path / "b.csv", rows[0], rows[1:])))
    assert "has to name the columns" in unnamed
    assert "has to name the columns" not in named


def test_a_model_counts_tokens(tmp_path: Path, tiny_model: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(["a " * 100, "a b", "a"]), "utf-8")
    found = look(path, tiny_model)
    (column,) = found.columns
    assert column.tokens == spread([102, 4, 3])
    assert found.cut == pytest.approx(1 / 3)
    assert look(path).cut is None


def test_rows_from_python_are_looked_at() -> None:
    rows = [{"question": f"{text(row, 5)}?", "answer": text(row, 12)} for row in range(100)]
    found = isotune.look(rows)
    assert isinstance(found, isotune.Look)
    assert (found.source, found.format, found.rows) == ("rows", "rows from Python", 100)
    assert "--pairs question answer" in found.doors[0].command


def test_all_rows_are_counted_and_the_first_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.recipes.look.MOST_ROWS", 70)
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(text(row, 6) for row in range(100)), "utf-8")
    found = look(path)
    assert (found.rows, found.looked_at) == (100, 70)
    assert "100 rows; the first 70 are looked at" in str(found)


@pytest.mark.parametrize("name", ["plain.txt", "report 3.5 final.txt", "v1.2.txt.gz"])
def test_the_kind_of_a_file_is_its_ending(name: str, tmp_path: Path) -> None:
    opened = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "wt", encoding="utf-8") as file:
        file.write("one sentence\nanother one\n")
    ending = ".txt.gz" if name.endswith(".gz") else ".txt"
    assert look(tmp_path / name).format == f"1 file, {ending}"


def test_a_file_whose_name_begins_like_an_option_is_named_as_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-notes.txt").write_text("".join(f"{text(number, 5)}\n" for number in range(99)))
    for door in look("-notes.txt").doors:
        assert shlex.split(door.command)[2] == "./-notes.txt"


def test_a_glance_reads_no_further_than_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    good = [json.dumps({"text": text(row, 6)}) for row in range(FIRST_ROWS)]
    path.write_text("\n".join([*good, "broken"]), "utf-8")
    found = glance(path)
    assert (found.rows, found.looked_at) == (None, FIRST_ROWS)
    assert next(found.in_short(suggests=True)).startswith(f"{path}: the first 2,000 rows; ")
    with pytest.raises(InputError, match=f":{FIRST_ROWS + 1}: not valid JSON"):
        look(path)


def test_the_gains_that_are_quoted_are_those_of_the_results() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "results.md").read_text("utf-8")
    starts = {"COVID-QA": 67.85, "SQuAD": 83.13}
    gained = read_recipe("adapt-pairs")["gained"]
    for name, start in starts.items():
        line = re.search(rf"\| all-minilm, {name} \| {start} \|.*?\*\*([\d.]+)\*\*", page)
        assert line is not None
        assert f"{float(line[1]) - start:+.1f}" in gained
    assert "where the start has 98.54, isotune has\n98.47" in page
    for words in ("+3.30", "+0.34", "-0.11"):
        assert words in page
        assert f"{float(words):+.1f}" in read_recipe("crops")["gained"]
    labels = page.partition("| all-minilm | TREC")[2].partition("\n\n")[0]
    rows = [line.split("|")[-5:-3] for line in f"| TREC{labels}".splitlines()]
    assert len(rows) == 4
    for frozen, tuned in rows:
        change = float(tuned.strip(" *")) - float(frozen)
        assert f"{change:+.1f}" in read_recipe("classify")["gained"]
