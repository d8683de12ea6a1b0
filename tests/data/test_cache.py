"""The cache of derived texts: made once, in order, kept in batches."""

import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from isotune.data.cache import cache_folder, derived_texts
from isotune.errors import InputError


class Upper:
    """Uppercases, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str]) -> list[str]:
        self.calls.append(texts)
        return [text.upper() for text in texts]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "kind.sqlite"


def test_a_text_is_made_once_and_all_come_in_order(path: Path) -> None:
    make = Upper()
    texts = ["b", "a", "b", "ü\0\n'", "a"]
    expected = [(text, text.upper()) for text in texts]
    assert list(derived_texts(path, {}, texts, make, 2)) == expected
    assert make.calls == [
        ["b", "a"],
        ["ü\0\n'"],
    ]  # the second "b" is known by then, and so is the last "a"
    assert list(derived_texts(path, {}, iter(["c", *texts]), make, 10)) == [("c", "C"), *expected]
    assert make.calls[2:] == [["c"]]


def test_each_settings_have_their_own_texts(path: Path) -> None:
    make = Upper()
    for settings in ({"models": ["x", "y"], "beam": 1}, {"models": ["x", "y"], "beam": 2}):
        assert list(derived_texts(path, settings, ["a"], make, 4)) == [("a", "A")]
    assert make.calls == [["a"], ["a"]]
    assert list(derived_texts(path, {"beam": 1, "models": ("x", "y")}, ["a"], make, 4)) == [
        ("a", "A")
    ]
    assert len(make.calls) == 2


def test_what_was_made_before_a_kill_is_kept(path: Path) -> None:
    texts = [f"text {i}" for i in range(10)]

    def fails_late(missing: list[str]) -> list[str]:
        if "text 6" in missing:
            raise KeyboardInterrupt
        return [text.upper() for text in missing]

    with pytest.raises(KeyboardInterrupt):
        list(derived_texts(path, {}, texts, fails_late, 3))
    make = Upper()
    assert len(list(derived_texts(path, {}, texts, make, 3))) == 10
    assert make.calls == [texts[6:9], texts[9:]]


def test_no_more_texts_are_read_than_a_batch(path: Path) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "a"

    assert list(islice(derived_texts(path, {}, endless(), Upper(), 3), 4)) == [("a", "A")] * 4


def test_without_a_file_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make = Upper()
    for _ in range(2):
        assert list(derived_texts(None, {}, ["a", "a"], make, 1)) == [("a", "A")] * 2
    assert make.calls == [["a"], ["a"]]
    assert list(tmp_path.iterdir()) == []


def test_a_text_made_by_another_process_meanwhile_stands(path: Path) -> None:
    def slow(missing: list[str]) -> list[str]:
        list(derived_texts(path, {}, missing, Upper(), 9))  # the other one
        return ["mine"] * len(missing)

    assert list(derived_texts(path, {}, ["a"], slow, 9)) == [("a", "A")]


def test_a_file_with_another_table_of_that_name_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "kind.sqlite"
    with sqlite3.connect(path) as other:
        other.execute(
            "CREATE TABLE texts (key BLOB, derived TEXT CHECK (derived IS NULL), crc32 INTEGER)"
        )
    with pytest.raises(
        InputError, match=r"is damaged .*what is written into it can't be read\); remove it"
    ):
        list(derived_texts(path, {}, ["a"], Upper(), 2))


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be used"):
        list(derived_texts(tmp_path / "file" / "kind.sqlite", {}, ["a"], Upper(), 2))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (sqlite3.OperationalError("database is locked"), "can't be used (database is locked)"),
        (sqlite3.DataError("string or blob too big"), "can't be used (string or blob too big)"),
        (sqlite3.DatabaseError("file is not a database"), "is damaged (file is not a database)"),
    ],
)
def test_only_a_wrong_format_or_checksum_is_called_damage(
    path: Path, error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("isotune.data.cache._read", fail)
    with pytest.raises(InputError) as told:
        list(derived_texts(path, {}, ["a"], Upper(), 2))
    assert f"{path}: the cache of derived texts {message}" in str(told.value)


def test_a_user_without_a_home_folder_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", fail)
    with pytest.raises(InputError, match=r"no home folder .*; set XDG_CACHE_HOME to a folder"):
        cache_folder("stsb")


def test_the_cache_is_beside_a_file_and_the_users_for_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = tmp_path / "data" / "text.txt"
    data.parent.mkdir()
    data.write_text("a\n")
    assert cache_folder(str(data)) == data.parent / ".isotune"
    for source in (
        "stsb:train",
        "-",
        "hub:owner/name",
        "3 rows from Python",
        str(data.parent / "*.txt"),
    ):
        assert cache_folder(source) == tmp_path / "cache" / "isotune"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("stsb") == tmp_path / ".cache" / "isotune"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert cache_folder(str(data)) == tmp_path / ".cache" / "isotune"
