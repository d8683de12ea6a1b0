"""Ctrl-C at a random moment ends each command quietly, and the same command goes on.

The short test interrupts a few commands once; the slow test interrupts all of them, and new processes too, which are
importing their libraries. `ISOTUNE_SEED` chooses other moments.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from isotune.cli.app import COMMANDS
from tests.crashes.commands import call, goes_on, result, start

SEED = os.environ.get("ISOTUNE_SEED", "0")
NAMES = ["train", "evaluate", "analyse", "encode to a file", "encode to a folder"]
NAMES += ["index", "duplicates", "mine", "map", "label"]


@pytest.mark.parametrize(
    ("name", "times"),
    [("train", 2), ("encode to a folder", 2), *(pytest.param(name, 20, marks=pytest.mark.slow) for name in NAMES)],
)
def test_an_interrupted_command(name: str, times: int, command_words: dict[str, list[str]], tmp_path: Path) -> None:
    chance, words, codes = random.Random(f"{name} {SEED}"), command_words[name], Counter[int]()
    call(words, tmp_path / "first")  # imports what is left to import, so that the next call takes its usual time
    began = time.monotonic()
    assert call(words, tmp_path / "undisturbed").code == 0
    seconds, expected = time.monotonic() - began, result(name, tmp_path / "undisturbed")
    for number in range(times):
        folder = tmp_path / f"{number}"
        command = start(words, folder)
        time.sleep(chance.uniform(0, seconds))
        command.signal(signal.SIGINT)
        outcome = command.outcome()
        codes[outcome.code] += 1
        assert outcome.code in (0, 130), outcome  # 0: it had ended
        assert "Traceback" not in outcome.err, outcome.err
        if outcome.code:
            goes_on(name, words, folder, expected)
    print(f"{name}: {codes[130]} of {times} were interrupted")
    assert codes[130] or times < 20


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_new_process_is_interrupted(command: str, command_words: dict[str, list[str]], tmp_path: Path) -> None:
    chance = random.Random(f"{command} {SEED}")
    words = next((words for words in command_words.values() if words[0] == command), [command])
    heard = 0
    for number in range(5):
        (tmp_path / f"{number}").mkdir()
        with subprocess.Popen(
            [sys.executable, "-m", "isotune", *words],
            cwd=tmp_path / f"{number}",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what a shell starts with "&" ignores it
            text=True,
        ) as process:
            time.sleep(chance.uniform(0.2, 4))  # not while Python itself starts
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        heard += process.returncode == 130
        assert "Traceback" not in err, err
    print(f"{command}: {heard} of 5 new processes were interrupted")
