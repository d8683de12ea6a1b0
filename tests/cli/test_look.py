"""`isotune look`, and what the beginning of a run says of its files."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call, Refused
from tests.conftest import WORDS

FAQ = "question,answer\n" + "".join(
    f"{' '.join(WORDS[n % 22 :: 5])} {n}?,the {n} is {WORDS[n % 22]}\n" for n in range(80)
)


def test_each_file_is_looked_at(isotune: Call) -> None:
    Path("faq.csv").write_text(FAQ)
    code, out, err = isotune("look", "faq.csv", "stsb-open:train")
    assert (code, err) == (0, "")
    first, second = out.split("\n\nstsb-open:train: ")
    assert first.startswith("faq.csv: 1 file, .csv\n  80 rows\n")
    assert "1. isotune train faq.csv --pairs question answer" in first
    assert second.startswith("a named dataset\n  5,597 rows\n")


def test_json_has_what_is_printed(isotune: Call) -> None:
    Path("faq.csv").write_text(FAQ)
    code, out, _ = isotune("look", "faq.csv", "--json")
    (found,) = json.loads(out)
    assert code == 0
    assert [column["name"] for column in found["columns"]] == ["question", "answer"]
    assert found["doors"][0]["rows"] == "Pair"
    assert found["scripts"] == {"Latin": 1.0}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x00\x01\x02", "a NUL byte"),
        (b"a" * 1_000_001, "more than 1,000,000 characters"),
        (b"", "empty"),
    ],
)
def test_what_is_no_text_is_refused(content: bytes, problem: str, refused: Refused) -> None:
    Path("notes.txt").write_bytes(content)
    assert problem in refused("look", "notes.txt")


def test_a_folder_is_refused(refused: Refused) -> None:
    Path("texts").mkdir()
    assert "name its files with a pattern" in refused("look", "texts")


def test_a_run_on_texts_is_told_what_else_the_file_has(isotune: Call, few_steps: list[str]) -> None:
    Path("faq.csv").write_text(FAQ)
    isotune("train", "faq.csv", "--out", "run", *few_steps)
    log = Path("run/train.log").read_text("utf-8")
    assert "faq.csv: 80 rows; columns question (text, mostly questions), answer (text)" in log
    assert "another way may fit better: two columns of text, question and answer" in log


def test_a_run_on_pairs_is_told_no_other_way(isotune: Call, few_steps: list[str]) -> None:
    Path("faq.csv").write_text(FAQ)
    flags = [flag for flag in few_steps if not flag.startswith("--method")]
    isotune("train", "faq.csv", "--pairs", "question", "answer", "--out", "run", *flags)
    log = Path("run/train.log").read_text("utf-8")
    assert "faq.csv: 80 rows" in log
    assert "another way" not in log
