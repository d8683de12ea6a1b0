"""Files that are written completely or not at all, by any number of processes at once."""

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from isotune import files
from isotune.errors import InputError
from isotune.files import (
    CHECKSUMS,
    FORGOTTEN,
    atomic_write,
    checksums,
    read_arrays,
    read_json,
    read_toml,
    verify_checksums,
)

WRITERS = 12


def make_file(path: Path, text: str) -> None:
    path.write_text(text * 1000)


def make_folder(path: Path, text: str) -> None:
    path.mkdir()
    for name in ("a", "b"):
        (path / name).write_text(text * 1000)


def content(path: Path) -> set[str]:
    """The letters of which a file, or the files of a folder, are made."""
    paths = [*path.iterdir()] if path.is_dir() else [path]
    return {letter for each in paths for letter in each.read_text()}


def refuse(*_: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("make", [make_file, make_folder])
def test_of_many_who_make_one_path_the_one_whose_content_is_there_was_told_so(
    make: Callable[[Path, str], None],
    new: bool,
    links: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if make is make_folder and not new:
        pytest.skip("a folder is not replaced")
    if (
        not links
    ):  # where only a look can tell whether the name is free, the writers come one after the other
        monkeypatch.setattr("os.link", refuse)
    together, path, refusals = Barrier(WRITERS if links else 1), tmp_path / "made", list[str]()

    def write(number: int) -> str:
        letter = chr(ord("a") + number)
        try:
            with atomic_write(path, new=new) as part:
                make(part, letter)
                together.wait()
        except InputError as error:
            refusals.append(str(error))
            return ""
        return letter

    with ThreadPoolExecutor(WRITERS if links else 1) as pool:
        ended_well = set(pool.map(write, range(WRITERS))) - {""}
    there = content(path)
    assert len(there) == 1
    assert there == ended_well if new else there <= ended_well
    assert set(refusals) == ({f"{path}: it exists already; give another name"} if new else set())
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("new", [True, False])
def test_what_fails_leaves_everything_as_it_was(new: bool, tmp_path: Path) -> None:
    path = tmp_path / ("new" if new else "old")
    (tmp_path / "old").write_text("old")

    def fail(error: BaseException) -> None:
        with atomic_write(path, new=new) as part:
            part.write_text("half of the n")
            raise error

    for error in (KeyboardInterrupt(), ConnectionError("gone"), ValueError("bad")):
        with pytest.raises(type(error)):
            fail(error)
    for error in (OSError(errno.ENOSPC, "no space"), OSError("no space")):
        with pytest.raises(InputError, match=r": it can't be written \(no space\)"):
            fail(error)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("old", "old")]


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("make", [make_file, make_folder])
@pytest.mark.parametrize("fails", ["the block", "the sync of the name"])
def test_a_full_disk_is_told_though_the_name_is_there_by_now(
    make: Callable[[Path, str], None],
    fails: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "made"
    synced = files.sync

    def write() -> None:
        with atomic_write(path, new=True) as part:
            make(part, "a")
            if fails == "the block":
                # Another process has made the path.
                make(path, "b")
                full_disk()
            monkeypatch.setattr(
                files, "sync", lambda at: full_disk() if at == tmp_path else synced(at)
            )

    with pytest.raises(InputError, match=r"made: it can't be written \(No space left on device\)"):
        write()
    assert content(path) == {"b" if fails == "the block" else "a"}
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_processes_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    paths = [tmp_path / f".v[1].npy.{key}.part" for key in ("old", "fresh")]
    for path, age in zip(paths, (FORGOTTEN + 60, 60), strict=True):
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    with atomic_write(tmp_path / "v[1].npy", new=True) as part:
        part.touch()
    assert [path.exists() for path in paths] == [False, True]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_byte_order_mark_of_notepad_is_no_part_of_a_file(mark: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f"{mark}steps = 3\r\n", "utf-8")
    (tmp_path / "a.json").write_text(f'{mark}{{"steps": 3}}\r\n', "utf-8")
    assert read_toml("recipe", tmp_path / "a.toml", {}) == {"steps": 3}
    assert read_json(tmp_path / "a.json") == {"steps": 3}


@pytest.mark.parametrize("name", ["~nobody_such/a.toml", "two\nlines/a.toml", "nul\0.toml"])
def test_a_toml_file_that_can_not_be_there_is_one_line(name: str) -> None:
    with pytest.raises(InputError, match=r"^recipe .*: it can't be read as TOML"):
        read_toml("recipe", name, {})


def test_a_missing_file_is_not_called_damaged(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    (tmp_path / CHECKSUMS).write_text(checksums(tmp_path, ["a", "b"]))
    assert verify_checksums(tmp_path)
    (tmp_path / "b").write_text("c")
    with pytest.raises(InputError, match="b is damaged: it is not the file that SHA256SUMS names"):
        verify_checksums(tmp_path)
    (tmp_path / "b").unlink()
    with pytest.raises(InputError, match="b is missing, which SHA256SUMS names; bring it back"):
        verify_checksums(tmp_path)
    assert verify_checksums(tmp_path, missing_ok=["b"])


def test_arrays_that_can_not_be_opened_are_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InputError, match=r"folder\.npz: it can't be read \(Is a directory\)"):
        read_arrays(tmp_path / "folder.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(InputError, match=r"text\.npz: not a file of arrays: File is not a zip"):
        read_arrays(tmp_path / "text.npz")
