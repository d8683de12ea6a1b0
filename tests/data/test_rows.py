import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotune.data.rows import (
    LabelledPair,
    LabelledSentence,
    Pair,
    Row,
    ScoredPair,
    Sentence,
    Triplet,
    blocks,
    row_of_each,
    to_rows,
)
from isotune.errors import InputError
from isotune.methods import METHODS


def rows(
    records: Sequence[Mapping[str, object]],
    row: type[Row],
    columns: Mapping[str, str] | None = None,
) -> list[Row]:
    return list(to_rows("corpus.tsv", enumerate(records, 2), row, columns))


def test_a_block_has_a_number_of_items_or_fewer_if_their_texts_are_very_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("isotune.data.rows.BLOCK_CHARACTERS", 10)
    stream = iter([("a", 7), ("b", 7), ("c", 7), ("d" * 8, 7), ("e" * 50, 7), ("f", 7)])
    parts = blocks(stream, 3, lambda item: item)
    assert [text for text, _ in next(parts)] == ["a", "b", "c"]
    assert next(stream) == ("d" * 8, 7)  # nothing is read ahead
    assert [[text for text, _ in part] for part in parts] == [["e" * 50], ["f"]]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"sentence": "a"}, Sentence("a")),
        ({"label": "1", "text": "a"}, Sentence("a")),
        ({"sentence2": "b", "sentence1": "a"}, Pair("a", "b")),
        ({"question1": "a", "question2": "b"}, Pair("a", "b")),
        ({"anchor": "a", "positive": "b", "negative": "c"}, Triplet("a", "b", "c")),
        ({"sent0": "a", "sent1": "b", "hard_neg": "c"}, Triplet("a", "b", "c")),
        ({"query": "a", "positive": "b", "negative": "c"}, Triplet("a", "b", "c")),
        ({"query": "a", "pos": "b", "neg": "c"}, Triplet("a", "b", "c")),
        ({"premise": "a", "hypothesis": "b", "label": 2}, LabelledPair("a", "b", "2")),
        (
            {"sentence1": "a", "sentence2": "b", "gold_label": " neutral "},
            LabelledPair("a", "b", "neutral"),
        ),
        ({"sentence1": "a", "sentence2": "b", "score": "3.5"}, ScoredPair("a", "b", 3.5)),
        ({"split": "dev", "sentence": "a", "label": "3"}, LabelledSentence("a", "3")),
        ({"sentence_A": "a", "sentence_B": "b", "relatedness_score": 4}, ScoredPair("a", "b", 4.0)),
        ({"question": "a", "answer": "b"}, Pair("a", "b")),
        (
            {"sentence1": "a", "sentence2": "b", "label": 0.25, "score": 3.5},
            ScoredPair("a", "b", 3.5),
        ),
        ({"sentence1": "a", "sentence2": "b", "label": 0.25}, ScoredPair("a", "b", 0.25)),
    ],
)
def test_usual_column_names_are_understood(record: dict[str, object], expected: Row) -> None:
    assert rows([record], type(expected)) == [expected]


def test_columns_override_the_usual_names_one_by_one() -> None:
    record = {"sentence1": "a", "sentence2": "b", "paraphrase": "c", "score": 1, "mean": 2}
    assert rows([record], Pair, {"sentence2": "paraphrase"}) == [Pair("a", "c")]
    assert rows([record], ScoredPair, {"score": "mean"}) == [ScoredPair("a", "b", 2.0)]
    assert rows([record], Sentence, {"sentence": "paraphrase"}) == [Sentence("c")]


@given(st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_a_finite_score_is_kept_exactly(score: float, as_text: bool) -> None:
    record = {"sentence1": "a", "sentence2": "b", "score": repr(score) if as_text else score}
    (row,) = rows([record], ScoredPair)
    assert row.score == score


@pytest.mark.parametrize(
    "score", ["", " ", "high", "1,5", "nan", "-inf", math.nan, math.inf, None, True, [1], 10**400]
)
def test_a_score_that_is_no_finite_number_is_refused(score: object) -> None:
    with pytest.raises(InputError, match=r"^corpus\.tsv:2: score must be a finite number, not "):
        rows([{"sentence1": "a", "sentence2": "b", "score": score}], ScoredPair)


@pytest.mark.parametrize(
    ("record", "row", "message"),
    [
        ({"sentence1": "a", "sentence2": " "}, Pair, "corpus.tsv:2: sentence2 is blank"),
        (
            {"sentence1": "a", "sentence2": "b", "label": ""},
            LabelledPair,
            "corpus.tsv:2: label is blank",
        ),
        ({"sentence": 3}, Sentence, "corpus.tsv:2: sentence must be text, not 3"),
        (
            {"query": "a", "pos": ["b"]},
            Sentence,
            "which columns hold sentence: it has 'query', 'pos'",
        ),
        (
            {"query": "a", "pos": ["b"], "neg": ["c", "d"]},
            Triplet,
            "corpus.tsv:2: pos must be text, not ['b']; of a .jsonl file, this makes a row of each "
            "text: jq -c ",
        ),
        ({"sentence": "a \ud83d b"}, Sentence, "corpus.tsv:2: sentence has half a surrogate pair"),
        (
            {"sentence": "a"},
            Triplet,
            "it has sentences only, and Triplet needs anchor, positive, negative",
        ),
        (
            {"a": "x", "score": 1},
            ScoredPair,
            "which columns hold sentence1, sentence2, score: it has 'a', 'score'",
        ),
        (
            {"sentence1": "a", "sentence2": "b", "label": "1"},
            LabelledSentence,
            "which columns hold sentence, label",
        ),
    ],
)
def test_an_unusable_record_is_refused(
    record: dict[str, object], row: type[Row], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        rows([record], row)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is missing")
def test_a_command_makes_a_row_of_each_text_of_lists(tmp_path: Path) -> None:
    columns = ["pos", "the 'other' texts", "$neg"]
    record = {"query": "a", **dict(zip(columns, [["b", "c"], ["d"], ["e", "f"]], strict=True))}
    empty = record | {"pos": []}
    (tmp_path / "lists.jsonl").write_text(f"{json.dumps(record)}\n{json.dumps(empty)}\n")
    subprocess.run(row_of_each(columns), shell=True, cwd=tmp_path, check=True)
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    made = [tuple(json.loads(line).values()) for line in lines]
    assert set(made) == {("a", pos, "d", neg) for pos in "bc" for neg in "ef"}
    assert len(made) == 4


def test_several_blank_labels_are_counted() -> None:
    labels: list[object] = ["x", " ", "y", None, math.nan, "", "z"]
    records = [{"sentence1": "a", "sentence2": "b", "label": label} for label in labels]
    with pytest.raises(InputError) as error:
        rows(records, LabelledPair)
    assert str(error.value) == (
        "corpus.tsv:3: label is blank, and so it is in 3 later rows; fill them, or delete the rows"
    )


def test_a_labelled_sentence_without_text_or_label_is_left_out_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    values: list[tuple[object, object]] = [("a", "x"), ("b", ""), (None, "y"), ("c", math.nan)]
    records = [{"text": text, "label": label} for text, label in values]
    assert rows(records, LabelledSentence) == [LabelledSentence("a", "x")]
    assert caplog.messages == [
        "corpus.tsv: 3 unlabelled or blank rows left out, of the lines 3, 4, 5"
    ]
    with pytest.raises(InputError, match=r"corpus\.tsv: no row has both a text and a label"):
        rows(records[1:], LabelledSentence)


def test_the_first_blank_value_is_told_though_a_later_record_is_malformed() -> None:
    def records() -> Iterator[tuple[int, dict[str, object]]]:
        yield 2, {"sentence1": "a", "sentence2": "b", "label": ""}
        yield 3, {"sentence1": "c", "sentence2": "d", "label": ""}
        raise InputError("corpus.tsv:4: malformed")

    with pytest.raises(InputError, match=r"^corpus\.tsv:2: label is blank, .* in 1 later row; "):
        list(to_rows("corpus.tsv", records(), LabelledPair))


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (1.0, "1"),
        (np.float32(2), "2"),
        (True, "True"),
        ("1.0", "1.0"),
        (7, "7"),
        (4.5, "4.5"),
        (["a", "b"], "a\x1fb"),
    ],
)
def test_a_value_is_one_label_in_each_type(value: object, label: str) -> None:
    (row,) = rows([{"text": "a", "label": value}], LabelledSentence)
    assert row == LabelledSentence("a", label)


def test_wrong_columns_are_refused() -> None:
    record = {"review": "a", "stars": "5"}
    with pytest.raises(InputError, match=r"no column 'reviews'; it has 'review', 'stars'"):
        rows([record], Sentence, {"sentence": "reviews"})
    with pytest.raises(
        InputError, match=r"unknown field of Sentence 'sentense': did you mean 'sentence'\?"
    ):
        rows([record], Sentence, {"sentense": "review"})


@pytest.mark.parametrize("row_type", [Sentence, LabelledSentence, Triplet])
def test_columns_of_two_texts_are_for_methods_of_two_texts(row_type: type[Row]) -> None:
    columns = {"sentence1": "a", "sentence2": "b"}
    with pytest.raises(InputError, match="as --pairs names them; these are for methods of") as said:
        rows([{"a": "x", "b": "y"}], row_type, columns)
    assert ", ".join(row_type._fields) in str(said.value)
    _, named = str(said.value).split("methods of two texts: ")
    methods = [METHODS[word] for word in re.findall(r"[\w-]+", named) if word in METHODS]
    assert len(methods) == 4
    for method in methods:
        assert set(columns) <= set(method.rows._fields)


@pytest.mark.parametrize(
    ("record", "row_type", "columns", "column", "fields"),
    [
        (
            {"a": "x", "b": "y"},
            Pair,
            {"sentence1": "a", "sentence2": "a"},
            "a",
            ("sentence1", "sentence2"),
        ),
        (
            {"anchor": "x", "positive": "y"},
            Pair,
            {"sentence1": "positive"},
            "positive",
            ("sentence1", "sentence2"),
        ),
        (
            {"text": "x", "label": "y"},
            LabelledSentence,
            {"sentence": "label"},
            "label",
            ("sentence", "label"),
        ),
        (
            {"sentence1": "x", "sentence2": "y", "score": 1},
            ScoredPair,
            {"score": "sentence2"},
            "sentence2",
            ("sentence2", "score"),
        ),
    ],
)
def test_a_column_is_not_read_as_two_values_of_a_row(
    record: Mapping[str, object],
    row_type: type[Row],
    columns: Mapping[str, str],
    column: str,
    fields: tuple[str, str],
) -> None:
    problem = f"the column '{column}' is read as {fields[0]} and as {fields[1]}; name two columns"
    with pytest.raises(InputError, match=f"^corpus.tsv: {problem}$"):
        rows([record], row_type, columns)


def test_a_column_that_a_later_record_lacks_is_named_with_its_line() -> None:
    records = [{"sentence1": "a", "sentence2": "b"}, {"sentence1": "c", "sentence_2": "d"}]
    with pytest.raises(
        InputError, match=r"^corpus.tsv:3: no 'sentence2'; it has 'sentence1', 'sentence_2'$"
    ):
        rows(records, Pair)


def test_a_header_that_is_really_text_is_cut_in_the_message() -> None:
    with pytest.raises(InputError) as error:
        rows([{"word " * 100_000: "a"}], Pair)
    assert len(str(error.value)) < 600
