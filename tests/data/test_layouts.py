"""Damaged files of published data: each is one line of error that names the place."""

import gzip
import re
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from isotune.data import layouts
from isotune.data.layouts import read_layout
from isotune.errors import InputError
from tests.hub.senteval import tarred


@pytest.mark.parametrize(
    ("layout", "part", "files", "problem"),
    [
        ("sts", "S", {"S/STS.input.a.txt": "one\ttwo\nthree\n", "S/STS.gs.a.txt": "1\n2\n"}, "S: "),
        ("sts", "S", {"S/STS.input.a.txt": "one\ttwo\n", "S/STS.gs.a.txt": "1\n2\n"}, "S: "),
        ("stsb", "b.csv", {"b.csv": "genre\tfile\t2012\t1\t3.5\tone\n"}, "b.csv: "),
        ("table", "t.txt", {"t.txt": "Quality\t#1 String\n1\n"}, "t.txt: "),
        ("table", "t.txt", {"t.txt": "Quality\t#1 String\n1\ta\tb\n"}, "t.txt: "),
        ("sst", "train", {"train": "good\t1\nno class\n"}, "train: "),
        ("sst", "train", {}, "no files train in it"),
    ],
)
def test_a_malformed_file_is_named(
    tmp_path: Path, layout: str, part: str, files: dict[str, str], problem: str
) -> None:
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    with pytest.raises(InputError, match=re.escape(problem)):
        list(read_layout(layout, path, part))


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "LARGEST", 1_000_000)
    path, text = tmp_path / f"data{ending}", "good\t1\n" * 1_000_000
    if ending == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("train", text)
    else:
        path.write_bytes(gzip.compress(tarred({"train": text})))
    assert path.stat().st_size < 50_000
    with pytest.raises(InputError, match="7,000,000 bytes; the limit is 1,000,000"):
        list(read_layout("sst", path, "train"))


@pytest.mark.parametrize(
    ("layout", "content"),
    [
        ("sst", b"id\tsimilarity\n"),  # no archive
        ("cs224n", b"id\tsentiment\n1\t\xff\n"),
        ("cs224n", b"id\tsentence\n1\t" + b"a" * 1_000_001 + b"\n"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, layout: str, content: bytes) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(str(path))):
        list(read_layout(layout, path, ""))


def test_a_file_that_is_not_there_is_not_called_damaged(tmp_path: Path) -> None:
    for layout in ("cs224n", "sst"):
        with pytest.raises(
            InputError, match=r"a: (it )?can't be read \(No such file or directory\)$"
        ):
            list(read_layout(layout, tmp_path / "a", ""))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_an_archive_with_a_name_of_any_size_is_refused(tmp_path: Path, kind: bytes) -> None:
    path, size = tmp_path / "data.tar.gz", 200_000_000
    header = tarfile.TarInfo("name")
    header.type, header.size = kind, size
    with gzip.open(path, "wb", 1) as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.writelines(b"a" * 1_000_000 for _ in range(size // 1_000_000))
    tracemalloc.start()
    with pytest.raises(InputError, match="a name of 200,000,000 bytes"):
        list(read_layout("sst", path, "train"))
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
