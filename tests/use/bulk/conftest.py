"""Six files of text, the jobs that encode them, and what the files of vectors must be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isotune.use.bulk.job import Job
from isotune.use.bulk.parts import find_parts

MakeJob = Callable[..., Job]
COUNT = 6


@pytest.fixture
def text_files(sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files of ten rows in the folder `text` of the current folder."""
    monkeypatch.chdir(tmp_path)
    paths = [Path(f"text/{number}.tsv") for number in range(COUNT)]
    paths[0].parent.mkdir()
    for number, path in enumerate(paths):
        rows = [f"{number}-{i}\t{sentence}\n" for i, sentence in enumerate(sentences[10 * number :][:10])]
        path.write_text("id\tsentence\n" + "".join(rows))
    return paths


@pytest.fixture
def make_job(text_files: list[Path], tiny_model: Path) -> MakeJob:
    """A function that makes the job of encoding the files into the folder `out`."""

    def make(*sources: str, **options: Any) -> Job:
        options = {
            "encoder": str(tiny_model), "out": Path("out"), "suffix": ".parquet", "precision": None,
            "normalize": False, "columns": {},
        } | options  # fmt: skip
        return Job(parts=tuple(find_parts(sources or ["text/*.tsv"], options["suffix"])), **options)

    return make


def visible_files(folder: Path) -> dict[str, bytes]:
    """The content of the files that readers of the folder see, by their names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.relative_to(folder).parts[0].startswith((".", "_"))
    }
