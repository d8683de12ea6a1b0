"""What stands on a terminal is what was written: nothing in a name, text or path is markup."""

import ast
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.table import Table

import isotune
from isotune.console import PlainConsole
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
