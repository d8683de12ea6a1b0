"""The command line, called as a user calls it, and a run of a few steps."""

import io
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from isotune.cli import main


class Outcome(NamedTuple):
    """The result of a command: its exit code, and the text on the two output streams."""

    code: int
    out: str
    err: str


Call = Callable[..., Outcome]
Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs in an empty folder, offline, on 80 columns, with the bundled data only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("ISOTUNE_DATA", raising=False)


@pytest.fixture
def isotune(capsys: pytest.CaptureFixture[str]) -> Call:
    """A function that calls `isotune` with these words."""

    def call(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def refused(isotune: Call) -> Refused:
    """A function that calls `isotune` with words that it must refuse.

    It returns the error, which is the last line on standard error.
    """

    def call(*words: object) -> str:
        code, out, err = isotune(*words)
        *before, line = err.splitlines()
        assert code == 2
        assert out == ""
        assert line.startswith("error: ")
        assert not any("error" in text or "Traceback" in text for text in before)
        return line

    return call


@pytest.fixture
def few_steps(tiny_model: Path, pairs: Path) -> list[str]:
    """The flags of a run of four steps on the tiny model."""
    flags = {"model": tiny_model, "method": "simcse", "dev": pairs, "tasks": pairs}
    flags |= {"steps": 4, "batch-size": 8, "eval-every": 2}
    return [f"--{name}={value}" for name, value in flags.items()]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Outcome]]:
    """The folder of the run that the tests of this folder share, and its outcome.

    Both are empty until a test needs the run.
    """
    return tmp_path_factory.mktemp("finished") / "run", []


@pytest.fixture
def outcome(finished: tuple[Path, list[Outcome]], text: Path, few_steps: list[str]) -> Outcome:
    """The outcome of `isotune train` with a few steps; its run is copied to the folder "run"."""
    folder, outcomes = finished
    if not outcomes:
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = main(["train", str(text), "--out", "run", *few_steps])
        outcomes.append(Outcome(code, out.getvalue(), err.getvalue()))
        shutil.copytree("run", folder)
    elif not Path("run").exists():
        shutil.copytree(folder, "run")
    return outcomes[0]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `isotune train` asks of `isotune.training.train`, which makes no run in this test."""
    asked: list[dict[str, Any]] = []

    def train(text: tuple[str, ...], *, out: Path, **options: Any) -> SimpleNamespace:
        asked.append({"text": text, "out": out, **options})
        return SimpleNamespace(report=out / "report.html", stopped=None)

    monkeypatch.setattr("isotune.training.train", train)
    return asked
