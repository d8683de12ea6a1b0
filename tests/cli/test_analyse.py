"""`isotune analyse`: an analysis and its files, and errors."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Call, Refused


def test_an_analysis_and_its_files(isotune: Call, tiny_model: Path, pairs: Path) -> None:
    run = Path(shutil.copytree(tiny_model, "runs/demo/encoder"))
    code, out, err = isotune(
        "analyse", "tsne", tiny_model, run, "--tasks", pairs, "--out", "look", "--seed", 5
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == ["tiny", "demo"]
    assert lines[2:] == ["look/tsne.json", "look/tsne.png"]
    assert json.loads(Path("look/tsne.json").read_text())["options"] == {"seed": 5}


def test_errors_are_reported_before_any_encoding(
    refused: Refused, tiny_model: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotune.encoder.encoder.Encoder.encode", None)
    Path("old").mkdir()
    Path("old/tsne.json").write_text("old")
    Path("file").write_text("")
    for words, message in [
        (
            ["tsne", tiny_model, tiny_model, "--tasks", pairs],
            f"encoder {tiny_model} is named twice",
        ),
        (
            ["tsne", tiny_model, "--tasks", pairs, "--seed=-1"],
            "--seed -1: it is a whole number from 0 to 4294967295",
        ),
        (
            ["tsne", tiny_model, "--tasks", pairs, "--out", "old"],
            "old/tsne.json: it exists already",
        ),
        (["tsne", tiny_model, "--tasks", pairs, "--out", "file"], "file: File exists"),
    ]:
        assert message in refused("analyse", *words)
    assert Path("old/tsne.json").read_text() == "old"
