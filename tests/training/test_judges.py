"""Who may judge a run: a table of cases."""

from typing import Any

import pytest

from isotune.recipes import Recipe
from isotune.training.judges import CandidateJudges, Judges, find_judges, trained_rows

MINE = "mine.tsv"
GENERAL = "stsb-open:test"


def judges(
    text: str = "notes.txt",
    tasks: tuple[str, ...] = (MINE,),
    dev: str = "none",
    trained: tuple[str, ...] = (),
) -> Judges:
    """The judges of a run on this text that was given these tasks and dev data.

    It was scored on a file of the user's, on the general pairs, and on a task of a plugin.
    """
    recipe = Recipe.from_table(
        {"data": [text], "tasks": list(tasks), "dev": dev, "stages": [{"method": "simcse"}]}
    )
    sources = {MINE: MINE, "stsb-open": GENERAL}
    candidates = CandidateJudges(sources, others={"plugin"}, dev="" if dev == "none" else dev)
    return find_judges(recipe, candidates, trained)


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, {MINE, "plugin"}),
        # The run was given no task, so none of those that were scored is the user's.
        ({"tasks": ()}, set()),
        # General pairs say nothing about another text, also if they were asked for.
        ({"tasks": (MINE, "stsb-open")}, {MINE, "plugin"}),
        # On their own text they do, but only if they were asked for.
        ({"text": "stsb-open:train"}, {MINE, "plugin"}),
        (
            {"text": "stsb-open:train", "tasks": (MINE, "stsb-open")},
            {MINE, "plugin", "stsb-open"},
        ),
        # Rows that were trained on judge nothing.
        ({"trained": (MINE,)}, {"plugin"}),
        (
            {"text": "stsb-open:train", "tasks": (MINE, "stsb-open"), "trained": (GENERAL,)},
            {MINE, "plugin"},
        ),
    ],
)
def test_the_tasks_that_speak_for_the_text(changes: dict[str, Any], own: set[str]) -> None:
    assert judges(**changes).tasks == own


def test_a_group_speaks_for_the_text_if_all_of_its_tasks_do() -> None:
    recipe = Recipe.from_table(
        {"data": ["notes.txt"], "tasks": ["sts"], "stages": [{"method": "simcse"}]}
    )
    names = ["sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr"]
    candidates = CandidateJudges({name: f"{name}:test" for name in names}, others={"sts"}, dev="")
    assert find_judges(recipe, candidates, ()).tasks == {*names, "sts"}
    assert find_judges(recipe, candidates, {"sts14:test"}).tasks == {*names} - {"sts14"}


@pytest.mark.parametrize(
    ("trained", "judged"),
    [
        ((), set()),
        ((MINE,), {MINE}),
        (("dev.tsv",), {"dev.tsv"}),
        # Nobody is scored on this file.
        (("other.tsv",), set()),
    ],
)
def test_the_judges_that_were_trained_on_are_named(
    trained: tuple[str, ...], judged: set[str]
) -> None:
    assert judges(dev="dev.tsv", trained=trained).trained_on == judged


@pytest.mark.parametrize(
    ("text", "dev", "general"),
    [
        ("notes.txt", "none", False),
        ("notes.txt", "dev.tsv", False),
        ("notes.txt", "stsb-open:dev", True),
        ("stsb-open:train", "stsb-open:dev", False),
    ],
)
def test_general_dev_data_choose_for_another_text(text: str, dev: str, general: bool) -> None:
    assert judges(text=text, dev=dev).dev_is_general is general


@pytest.mark.parametrize("teachers", [[], ["teacher"]])
def test_general_losses_do_not_count_with_teachers(teachers: list[str]) -> None:
    stages = [{"method": "simcse"}, {"method": "distil", "teachers": teachers}]
    recipe = Recipe.from_table({"data": ["notes.txt"], "stages": stages})
    candidates = CandidateJudges({"stsb-open": GENERAL}, others=(), dev="")
    judges = find_judges(recipe, candidates, ())
    assert judges.general_losses_count is not bool(teachers)


@pytest.mark.parametrize(
    ("rows", "of_pairs", "of_texts", "trained"),
    [
        (11, 100, 150, True),
        (10, 100, 150, False),
        # A task of texts has no pairs.
        (16, 0, 150, True),
        (15, 0, 150, False),
    ],
)
def test_more_than_a_tenth_of_the_rows_is_training_on_them(
    rows: int, of_pairs: int, of_texts: int, trained: bool
) -> None:
    counts = {"rows": rows, "of_pairs": of_pairs, "of_sentences": of_texts}
    entries = [{"sources": ["notes.txt"]}, {"overlap": {MINE: counts}}]
    assert trained_rows(entries) == ({MINE} if trained else set())
