"""The pictures of the report show what isotune says today."""

import json
import re
import shutil
from pathlib import Path

import pytest

from isotune.evaluation import RunEvaluation
from isotune.report import write_report
from tools.gallery import DOCS, FILES, RUN, WORDS, words_shown

STALE = "the pictures in docs/gallery are stale: make them again by python tools/gallery.py"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The files of the run in the pictures."""
    return shutil.copytree(RUN, tmp_path / RUN.name)


def test_the_page_of_the_run_has_the_words_of_the_picture(run: Path) -> None:
    assert words_shown(write_report(run)) == WORDS.read_text("utf-8"), STALE


def test_another_verdict_makes_the_pictures_stale(run: Path) -> None:
    path = run / "evaluation.json"
    evaluation = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**evaluation, "own_tasks": ["stsb-open"]}))
    assert words_shown(write_report(run)) != WORDS.read_text("utf-8")


def test_the_text_beside_the_pictures_says_the_verdict() -> None:
    verdict = RunEvaluation.read(RUN / "evaluation.json").verdict
    text = " ".join((DOCS / "gallery.md").read_text("utf-8").split())
    assert verdict.word == "CAN'T TELL"
    assert f"![The report: keep what you had for now, because {verdict.why};" in text


def test_nothing_of_the_machine_is_in_the_files() -> None:
    assert sorted(path.name for path in RUN.iterdir()) == sorted(FILES)
    for path in RUN.iterdir():
        assert not re.search(r"[\"'](/|[A-Z]:)", path.read_text("utf-8")), path.name
