"""On a full disk each command ends with one line and loses nothing; when there is space, it goes on.

The disk is a small tmpfs, which only root may mount. The short test fills it at some places, the slow one at each page.
"""

import os
import random
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.crashes.commands import assert_refused, call, goes_on, mount, mounted, result

PAGE = os.sysconf("SC_PAGE_SIZE")
LARGE = 1 << 14  # pages: 64 MiB
NAMES = ["train", "analyse", "encode to a file", "encode to a folder", "index", "duplicates", "mine", "map"]


def disk(folder: Path, pages: int) -> AbstractContextManager[None]:
    """A disk of so many pages, mounted at a new folder."""
    folder.mkdir()
    return mounted(folder, f"-t tmpfs -o size={pages * PAGE} tmpfs")


def test_the_commands_are_those_that_write(command_words: dict[str, list[str]]) -> None:
    assert {*NAMES, "label"} == {*command_words}


@pytest.mark.parametrize(
    ("name", "times"),
    [("train", 2), ("encode to a folder", 2), *(pytest.param(name, 40, marks=pytest.mark.slow) for name in NAMES)],
)
def test_a_full_disk(name: str, times: int, command_words: dict[str, list[str]], tmp_path: Path) -> None:
    chance, words, refused = random.Random(0), command_words[name], 0
    with disk(tmp_path / "large", LARGE):
        assert call(words, tmp_path / "large").code == 0
        expected = result(words, tmp_path / "large")
        disk_ = os.statvfs(tmp_path / "large")
        used = disk_.f_blocks - disk_.f_bfree
    for number in range(times):
        pages = (used * number + chance.randrange(used)) // times  # free ones: fewer than the command writes
        folder = tmp_path / f"{number}"
        with disk(folder, pages + 1):
            (folder / "full").write_bytes(bytes(PAGE))
            outcome = call(words, folder)
            if outcome.code != 0:
                assert_refused(outcome)
                assert "space" in outcome.err or "full" in outcome.err, outcome.err
                refused += 1
            assert mount(folder, f"-t tmpfs -o remount,size={LARGE * PAGE} tmpfs")
            goes_on(words, folder, expected) if outcome.code else None
    print(f"{name}: {times} disks of less than {used} pages, {refused} of them full")
    assert refused > times / 2
