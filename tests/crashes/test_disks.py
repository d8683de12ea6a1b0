"""On a full disk, and in a folder that can't be written, each command ends with one line and loses
nothing.

When there is space, the command goes on; what only reads works without. The full disk is a small
tmpfs, the folder is mounted read-only, which only root may do. The short test fills the disk at
some places, the slow one at each page.
"""

import os
import random
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from isotune.training import run_folder
from tests.crashes.commands import assert_refused, call, goes_on, mount, mounted, result

PAGE = os.sysconf("SC_PAGE_SIZE")
LARGE = 1 << 14  # pages: 64 MiB
FEW = ["train", "encode to a file", "index"]
OTHERS = ["analyse", "encode to a folder"]
NAMES = [*FEW, *OTHERS]


def take_room_for_granted() -> None:
    """As if another process filled the disk after the run had looked how much is free."""
    run_folder.check_space = lambda *_, **__: "enough"


def disk(folder: Path, pages: int) -> AbstractContextManager[None]:
    """A disk of so many pages, mounted at a new folder."""
    folder.mkdir()
    return mounted(folder, f"-t tmpfs -o size={pages * PAGE} tmpfs")


def test_the_commands_are_those_that_write(command_words: dict[str, list[str]]) -> None:
    assert {*NAMES, "label"} == {*command_words}


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("train", 2),
        ("encode to a folder", 2),
        *(pytest.param(name, 40, marks=pytest.mark.slow) for name in NAMES),
    ],
)
def test_a_full_disk(
    name: str, times: int, command_words: dict[str, list[str]], tmp_path: Path
) -> None:
    chance, words, refused = random.Random(0), command_words[name], 0
    with disk(tmp_path / "large", LARGE):
        assert call(words, tmp_path / "large").code == 0
        expected = result(words, tmp_path / "large")
        disk_ = os.statvfs(tmp_path / "large")
        used = disk_.f_blocks - disk_.f_bfree
    for number in range(times):
        pages = (
            used * number + chance.randrange(used)
        ) // times  # free ones: fewer than the command writes
        folder = tmp_path / f"{number}"
        with disk(folder, pages + 1):
            (folder / "full").write_bytes(bytes(PAGE))
            outcome = call(words, folder, take_room_for_granted)
            if outcome.code != 0:
                assert_refused(outcome)
                assert "space" in outcome.err or "full" in outcome.err, outcome.err
                refused += 1
            assert mount(folder, f"-t tmpfs -o remount,size={LARGE * PAGE} tmpfs")
            goes_on(words, folder, expected) if outcome.code else None
    print(f"{name}: {times} disks of less than {used} pages, {refused} of them full")
    assert refused > times / 2


def read_only(folder: Path) -> AbstractContextManager[None]:
    """A folder in which nothing can be changed."""
    return mounted(folder, f"--bind {folder}", "-o remount,ro,bind")


@pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in [*OTHERS, "label"])]
)
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
def test_what_others_made_can_be_read_but_not_changed(
    command_words: dict[str, list[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    for name in ("index", "encode to a folder"):
        assert call(command_words[name], folder).code == 0
    shutil.copytree(folder / "out" / "index", tmp_path / "index")
    changed = [path for path in command_words["index"] if path.endswith("text.txt")]
    with read_only(folder):
        # The last of the three hits.
        assert "\n   3   " in call(["search", "out/index", "a dog", "-k", "3"], folder).out
        assert call(["rows", "out/index"], folder).out.startswith("rows")
        assert "this command made 0" in call(command_words["encode to a folder"], folder).out
        assert_refused(call(["rows", "out/index", "--where", "text != 'x'", "--delete"], folder))
        assert_refused(call([*command_words["index"], *changed], folder))
