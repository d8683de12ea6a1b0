"""Every command ends without a traceback, on any terminal, without streams and on a full disk."""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from threading import Thread

import pytest
from rich.table import Table

from isotune.cli import main
from isotune.cli.app import COMMANDS
from isotune.cli.tables import print_whole
from isotune.console import LEAST_WIDTH, PlainConsole

# Calls commands in turn, with each state of the standard streams, and writes their exit codes.
CALLS = """
    import json, os, sys

    from isotune.cli import main

    def open_streams():
        pass

    def close_streams():
        os.closerange(0, 3)
        sys.stdin = sys.stdout = sys.stderr = None

    def fill_streams():
        # The files of the streams before close the numbers first.
        sys.stdout = sys.stderr = None
        for number in (1, 2):
            os.dup2(os.open("/dev/full", os.O_WRONLY), number)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))

    codes = {}
    states = {"open": open_streams, "closed": close_streams, "full": fill_streams}
    for state, lines in json.loads(sys.argv[1]).items():
        os.mkdir(state)
        os.chdir(state)
        codes[state] = []
        for words in lines:
            states[state]()
            sys.argv = ["isotune", *words]
            codes[state].append(main())
        os.chdir("..")
    with open("codes.json", "w") as file:
        json.dump(codes, file)
"""

# The commands whose call is refused.
REFUSED = ("report", "predict", "export", "serve")


@pytest.fixture
def calls(tiny_model: Path, text: Path, pairs: Path) -> list[list[str]]:
    """A call of each command that takes little time."""
    words_of = {
        "look": f"{text}",
        "train": f"{text} --model {tiny_model} --dry-run",
        "evaluate": f"{tiny_model} --tasks {pairs}",
        "report": "gone",
        "analyse": "",
        "study": "",
        "reproduce": "",
        "encode": f"{tiny_model} {text}",
        "predict": f"{tiny_model} {text}",
        "label": f"{text} --encoders {tiny_model} --pairs 2",
        "index": f"{tiny_model} {text}",
        "search": "index dog",
        "rows": "index",
        "export": f"{tiny_model} --out index",
        "serve": "gone --port 0",
        "recipes": "",
        "datasets": "",
        "doctor": f"{tiny_model}",
    }
    assert list(words_of) == list(COMMANDS)
    return [[command, *words.split()] for command, words in words_of.items()]


@pytest.fixture
def terminal() -> Iterator[int]:
    """A terminal of one column, which reads all that is written on it."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 1, 0, 0))

    def read() -> None:
        try:
            while os.read(reader, 65536):
                pass
        except OSError:
            # The other end is closed.
            return

    thread = Thread(target=read)
    thread.start()
    # The end of its input ends what reads from the terminal.
    os.write(reader, b"\x04" * 10)
    yield writer
    os.close(writer)
    thread.join()
    os.close(reader)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_every_command_ends_whatever_its_streams_are(calls: list[list[str]], terminal: int) -> None:
    helps = [[command, "--help"] for command in COMMANDS]
    lines = {"open": [*helps, *calls], "closed": calls, "full": [*helps[:1], *calls]}
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    del environment["COLUMNS"]
    command = [sys.executable, "-c", dedent(CALLS), json.dumps(lines)]
    streams = dict.fromkeys(["stdin", "stdout", "stderr"], terminal)
    subprocess.run(command, env=environment, timeout=300, check=True, **streams)
    codes = json.loads(Path("codes.json").read_text())
    expected = [2 if words[0] in REFUSED else 0 for words in calls]
    assert codes["open"] == [0] * len(helps) + expected
    # A closed stream is as the null device.
    assert codes["closed"] == expected
    assert codes["full"] == [2] * len(lines["full"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [[], ["--version"], ["trian"]])
def test_the_exit_code_is_the_commands_where_no_error_can_be_written(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "isotune", *words]
        assert subprocess.run(command, stdout=full, stderr=full, check=False).returncode == 2


@pytest.mark.parametrize("columns", ["0", "1", "2", "3", str(10**10)])
def test_a_console_is_neither_too_narrow_nor_too_wide(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert LEAST_WIDTH <= PlainConsole(file=io.StringIO()).width <= 10_000


def test_a_table_of_many_columns_is_printed_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    headers = [f"c{number}" for number in range(40)]
    table = Table(*headers)
    table.add_row(*headers)
    print_whole(table)
    assert capsys.readouterr().out.count("┳") == len(headers) - 1


def test_a_program_without_a_console_can_call_main(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["--version"]) == 0
