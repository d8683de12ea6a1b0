"""What `train` is given: the run folder that nobody names, and arguments of wrong types."""

import re
from pathlib import Path
from typing import Any

import pytest

import isotune
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.training.request import Choice, checked_request, default_folder

NO_CHOICE = Choice(recipe=None, method=None, pairs=None, stand_ins=False, resume=False)


def test_a_run_without_a_folder_gets_the_one_that_the_command_line_names(
    short: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = isotune.train(**{**short, "steps": 1, "eval_every": 1})
    assert re.fullmatch(r"runs/simcse-\d{8}-\d{6}", str(result.folder))
    assert (tmp_path / result.folder / "report.html").exists()


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"method": "simcse"}, "simcse"),
        ({"recipe": "folder/mine.toml"}, "mine"),
        ({}, "default"),
        ({"pairs": ("a", "b")}, "pairs"),
        ({"teachers": ("a",)}, "distil"),
    ],
)
def test_the_folder_is_named_by_the_recipe(choice: dict[str, Any], name: str) -> None:
    arguments: dict[str, Any] = {"recipe": None, "method": None, "model": None, **choice}
    assert default_folder(**arguments).name.startswith(f"{name}-20")


def test_an_encoder_in_memory_names_the_folder_too(tiny_model: Path) -> None:
    start = Encoder.load(tiny_model)
    request = checked_request("a.txt", None, None, NO_CHOICE, {"model": start})
    assert request.folder.name.startswith("adapt-20")
    assert request.options["model"] == str(request.folder / "start")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"out": 3}, "out: the folder of the run is needed, not 3"),
        ({"resume": True}, "resume needs out: the folder of the run to resume"),
        ({"sources": 3}, "sources: names of files or datasets are needed, not 3"),
        ({"sources": ["a.txt", 3]}, "sources: names of files or datasets are needed"),
        ({"rows": "a text"}, "rows: a table, or a list of sentences"),
        ({"model": 3}, "model: a name, or an encoder, is needed, not 3"),
        ({"out": "new", "resume": True, "method": "simcse"}, "leave out the sources and all"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_written(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        isotune.train(**arguments)
    assert [*tmp_path.iterdir()] == []


def test_several_processes_need_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="a run of several processes needs out"):
        isotune.train("notes.txt")


def test_a_stream_of_rows_is_read_once_and_given_to_each_stage() -> None:
    request = checked_request((), iter(["a", "b"]), "run", NO_CHOICE, {})
    assert request.rows == ["a", "b"]
