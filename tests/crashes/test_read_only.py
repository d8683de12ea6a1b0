"""In a folder that can't be written, each command ends with one line; what only reads works.

The folder is mounted read-only, which only root may do.
"""

import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.crashes.commands import assert_refused, call, mounted

NAMES = ["train", "encode to a file", "index"]
OTHERS = ["analyse", "encode to a folder", "duplicates", "mine", "map", "label"]


def read_only(folder: Path) -> AbstractContextManager[None]:
    """A folder in which nothing can be changed."""
    return mounted(folder, f"--bind {folder}", "-o remount,ro,bind")


def test_the_commands_are_those_that_write(command_words: dict[str, list[str]]) -> None:
    assert {*NAMES, *OTHERS} == {*command_words}


@pytest.mark.parametrize("name", [*NAMES, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_command_in_a_folder_that_cannot_be_written(
    name: str, command_words: dict[str, list[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with read_only(folder):
        outcome = call(command_words[name], folder)
        assert_refused(outcome)
        assert "out" in outcome.err.splitlines()[-1]
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_what_others_made_can_be_read_but_not_changed(command_words: dict[str, list[str]], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for name in ("index", "encode to a folder"):
        assert call(command_words[name], folder).code == 0
    shutil.copytree(folder / "out" / "index", tmp_path / "index")
    changed = [path for path in command_words["index"] if path.endswith("text.txt")]
    with read_only(folder):
        assert len(call(["search", "out/index", "a dog", "-k", "3"], folder).out.splitlines()) == 6
        assert call(["rows", "out/index"], folder).out.startswith("rows")
        assert call(command_words["encode to a folder"], folder).code == 2
        assert_refused(call(["rows", "out/index", "--where", "text != 'x'", "--delete"], folder))
        assert_refused(call([*command_words["index"], *changed], folder))
