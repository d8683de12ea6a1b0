"""The list of an index's files: what is listed is on the disk, and a changed file is named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.use.search import Index, read_documents, seal, store


@pytest.fixture
def made(encoder: Encoder, text: Path, tmp_path: Path) -> Index:
    index = Index.create(tmp_path / "index", encoder)
    index.add(read_documents(text))
    return index


def test_what_is_listed_was_brought_to_the_disk_before(
    encoder: Encoder, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(seal, "sync", synced.append)
    monkeypatch.setattr(store, "FRAGMENTS", 1)
    index = Index.create(tmp_path / "index", encoder)
    for file in (text, tmp_path / "changed.txt"):
        file.write_text(text.read_text() + "one more\n")
        index.add(read_documents(file))
    index.delete("text = 'one more'")
    table = tmp_path / "index" / "rows.lance"
    files = {path for path in table.rglob("*") if path.is_file() and path.name != seal.HINT}
    listed = {tmp_path / "index" / line.split("  ")[1] for line in sums(tmp_path).read_text().splitlines()}
    assert files == listed <= set(synced)
    assert {path for path in table.rglob("*") if path.is_dir()} | {table, tmp_path / "index"} <= set(synced)


def sums(tmp_path: Path) -> Path:
    return tmp_path / "index" / "SHA256SUMS"


def test_a_changed_file_is_named_when_the_index_is_checked(made: Index, encoder: Encoder, tmp_path: Path) -> None:
    Index.open(tmp_path / "index", encoder, check=True)
    path = max((tmp_path / "index" / "rows.lance" / "data").iterdir(), key=lambda path: path.stat().st_size)
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(InputError, match=rf"index: rows.lance/data/{path.name} is damaged: .* make the index again"):
        Index.open(tmp_path / "index", encoder, check=True)
    checked = ["sha256sum", "--check", "--quiet", "--ignore-missing", "SHA256SUMS"]
    if shutil.which(checked[0]):
        assert subprocess.run(checked, cwd=tmp_path / "index", capture_output=True, check=False).returncode == 1
        path.write_bytes(content)
        subprocess.run(checked, cwd=tmp_path / "index", check=True)


def test_a_list_that_is_older_than_the_table_is_no_damage_and_a_missing_list_is_written_again(
    made: Index, encoder: Encoder, tmp_path: Path
) -> None:
    with sums(tmp_path).open("a") as file:
        file.write(f"{'0' * 64}  rows.lance/data/merged.lance\n")  # which LanceDB has removed since
    assert len(Index.open(tmp_path / "index", encoder, check=True)) == len(made)
    sums(tmp_path).unlink()  # as of an index that was never sealed
    with pytest.raises(InputError, match=r"SHA256SUMS: it can't be read .*; isotune index writes it again"):
        Index.open(tmp_path / "index", encoder, check=True)
    Index.open(tmp_path / "index", encoder).delete("text like 'a %'")
    Index.open(tmp_path / "index", encoder, check=True)


def test_a_table_without_commits_is_damaged_if_it_had_some(made: Index, encoder: Encoder, tmp_path: Path) -> None:
    for path in (tmp_path / "index" / "rows.lance" / "_versions").iterdir():
        path.unlink()
    with pytest.raises(
        InputError, match=r"index: it can't be read \(.*not found\); remove it and make the index again"
    ):
        Index.open(tmp_path / "index", encoder)


def test_a_table_of_other_vectors_is_refused(made: Index, encoder: Encoder, tmp_path: Path) -> None:
    path = tmp_path / "index" / "index.json"
    path.write_text(path.read_text().replace('"dimension": 32', '"dimension": 16'))
    with pytest.raises(InputError, match="its vectors don't have the 16 features that it describes"):
        Index.open(tmp_path / "index", encoder)
