"""What stands on a terminal is what was written: nothing in a name, text or path is markup."""

import ast
import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.table import Table

import isotune
from isotune.console import PlainConsole, waiting
from isotune.training.recorder import Recorder

# rich reads all of these as something else: a tram, bold text, a link and a number in colour.
WRITTEN = "stsb:train: [bold]x[/bold] [link=y]z[/link] 1.5"
PACKAGE = Path(isotune.__file__).parent


def test_a_text_and_a_table_are_printed_as_they_were_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=True, width=200)
    console.print(WRITTEN)
    assert file.getvalue() == f"{WRITTEN}\n"
    table = Table("header :train:", title=WRITTEN)
    table.add_row(WRITTEN)
    console.print(table)
    assert file.getvalue().count(WRITTEN) == 3
    assert "header :train:" in file.getvalue()


def test_a_run_says_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.say(WRITTEN)
        recorder.start(WRITTEN, 0, 1)
        recorder.show(WRITTEN, "1.5")
        with recorder._console.capture() as shown:
            recorder._console.width = 300
            recorder._console.print(recorder._bar.get_renderable())
    assert capsys.readouterr().err == f"{WRITTEN}\n"
    assert shown.get().count(WRITTEN) == 2


def test_rich_prints_on_the_plain_console_alone() -> None:
    """A console of rich, and a text that rich reads, would give names and paths another look."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path != PACKAGE / "console.py":
            tree = ast.parse(path.read_text("utf-8"))
            wrong += [f"{path.relative_to(PACKAGE)}: {call}" for call in _marked_up(tree)]
    assert wrong == []


def _marked_up(tree: ast.AST) -> Iterator[str]:
    """The calls after which rich reads a text as markup."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "rich.console":
            yield "from rich.console import"
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in ("from_markup", "Console"):
            yield ast.unparse(node)
        if name == "TextColumn" and "markup=False" not in ast.unparse(node):
            yield ast.unparse(node)
        if name in ("status", "track") and any(isinstance(a, ast.JoinedStr) for a in node.args):
            yield ast.unparse(node)


def test_long_work_is_told_again_and_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isotune.console.SAID_EVERY", 0.05)
    with waiting("encoding"):
        time.sleep(0.3)
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert (first, second) == ("encoding", "encoding: 0 seconds so far")
    with waiting("reading"):
        pass
    assert capsys.readouterr().err == "reading\n"


def test_a_silent_run_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log has only what the run says."""
    monkeypatch.setattr("isotune.training.recorder.SAID_EVERY", 0.0)
    with Recorder(tmp_path) as recorder:
        recorder.say("begun")
        recorder.start("stage 1", 0, 9)
        recorder.advance(3)
        time.sleep(1.5)
    assert capsys.readouterr().err.splitlines() == ["begun", "stage 1: 3 of 9 done so far"]
    (line,) = (tmp_path / "train.log").read_text("utf-8").splitlines()
    assert line.endswith("begun")


def test_a_quiet_run_stays_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isotune.training.recorder.SAID_EVERY", 0.0)
    with Recorder(tmp_path, quiet=True):
        time.sleep(1.5)
    assert capsys.readouterr().err == ""
