"""The JSON of the commands has the fields that AGENTS.md names, and no others."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from isotune.encoder.calibration import Calibration
from isotune.evaluation.results import (
    Aggregates,
    Comparison,
    ControlResult,
    Correlations,
    Difference,
    Evaluation,
    GeometryResult,
    NamedScores,
    RetrievalResult,
    STSResult,
    TransferResult,
)
from isotune.evaluation.run_results import BesideTeachers, DevGain, RunEvaluation
from tests.cli.conftest import Call, Refused

AGENTS = Path(__file__).parents[2].joinpath("AGENTS.md").read_text("utf-8")
TASKS = (
    STSResult,
    Correlations,
    Aggregates,
    TransferResult,
    GeometryResult,
    RetrievalResult,
    NamedScores,
)


def described(row: str) -> set[str]:
    """The fields that a row of a table names."""
    (text,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", AGENTS, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", text))


@pytest.mark.parametrize(
    ("row", "models"),
    [
        ("`evaluate`", [Comparison]),
        ("evaluation", [Evaluation]),
        ("each of `controls`", [ControlResult]),
        ("each of `tasks`", TASKS),
        ("each of `differences`", [Difference]),
        ("each of `calibrations`", [Calibration]),
        ("`dev`", [DevGain]),
        ("`beside_teachers`", [BesideTeachers]),
    ],
)
def test_the_parts_of_an_evaluation(row: str, models: Sequence[type[BaseModel]]) -> None:
    assert described(row) == {name for model in models for name in model.model_fields}


def test_the_file_of_a_run() -> None:
    text = AGENTS.partition("A run writes `evaluation.json`: ")[2].partition("Scores")[0]
    assert set(re.findall(r"`(\w+)`", text)) == set(RunEvaluation.model_fields)


@pytest.mark.parametrize("command", ["recipes", "datasets", "study", "reproduce", "analyse"])
def test_each_entry_of_a_list(isotune: Call, command: str) -> None:
    for entry in json.loads(isotune(command, "--json").out):
        assert described(f"`{command}`") == set(entry)


def test_answers_of_an_encoder_and_an_index(isotune: Call, tiny_model: Path, text: Path) -> None:
    def answer(*words: object) -> Any:
        return json.loads(isotune(*words, "--json").out)

    isotune("index", tiny_model, text)
    (hit,) = answer("search", "index", "a dog", "-k", 1)["hits"]
    assert described("`search`") == {"hits", *hit}
    listed, deleted = (
        answer("rows", "index"),
        answer("rows", "index", "--where", "id = 'text.txt:1'", "--delete"),
    )
    assert described("`rows`") == {*listed, *deleted}
    assert described("`doctor`") <= set(answer("doctor"))


@pytest.mark.parametrize(
    "words",
    [
        ("study", "own/methods"),
        ("reproduce", "consert/table4"),
        ("analyse", "tsne"),
        ("datasets", "fetch", "x"),
    ],
)
def test_only_a_list_is_json(refused: Refused, words: tuple[str, ...]) -> None:
    assert "--json is for the list" in refused(*words, "--json")
