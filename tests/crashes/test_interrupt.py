"""Ctrl-C ends each command soon, quietly and with code 130, and the same command goes on.

The short test interrupts a training run, by the default recipe, at a few moments spread over its whole time. The slow
test interrupts all commands at many moments, and new processes too, which are importing their libraries. Moments are
counted in processor time, which a busy machine does not stretch. `ISOTUNE_SEED` chooses other moments.
"""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from isotune.cli.app import COMMANDS
from tests.conftest import WORDS
from tests.crashes.commands import Running, call, goes_on, result, start

SEED = os.environ.get("ISOTUNE_SEED", "0")
NAMES = ["evaluate", "analyse", "encode to a file", "encode to a folder"]
NAMES += ["index", "duplicates", "mine", "map", "label"]
HEARD = 2.0  # seconds of processor time in which a command has to hear Ctrl-C


@pytest.fixture
def run_words(command_words: dict[str, list[str]], tmp_path: Path) -> list[str]:
    """A run by the default recipe, with the bundled model, on a few thousand sentences."""
    chance, text = random.Random(0), tmp_path / "sentences.txt"
    text.write_text("".join(" ".join(chance.choices(WORDS, k=8)) + f" {number}\n" for number in range(5000)))
    options = [word for word in command_words["train"] if word.startswith(("--dev", "--tasks", "--out"))]
    return ["train", str(text), *options, "--steps=12", "--eval-every=4", "--batch-size=16"]


@pytest.mark.parametrize("times", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_an_interrupted_run(times: int, run_words: list[str], tmp_path: Path) -> None:
    assert interrupted("train", run_words, times, tmp_path) > times / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_command(name: str, command_words: dict[str, list[str]], tmp_path: Path) -> None:
    assert interrupted(name, command_words[name], 20, tmp_path)


def interrupted(name: str, words: list[str], times: int, folder: Path) -> int:
    """Interrupts a command, once in each of equal parts of its time; returns how often it had not yet ended."""
    chance, count = random.Random(f"{name} {SEED}"), 0
    call(words, folder / "first")  # imports what is left to import, so that the next call takes its usual time
    undisturbed = start(words, folder / "undisturbed")
    whole = seconds_used(undisturbed)
    assert undisturbed.outcome().code == 0
    expected = result(name, folder / "undisturbed")
    for number in range(times):
        command = start(words, folder / f"{number}")
        moment = seconds_used(command, (number + chance.random()) / times * whole)
        if not command.process.is_alive():
            continue
        command.signal(signal.SIGINT)
        heard = seconds_used(command, until=partial(says_it_stopped, folder / f"{number}"))
        outcome = command.outcome()
        assert outcome.code == 130, outcome
        assert heard - moment < HEARD, f"heard {heard - moment:.1f} s after {moment:.1f} s of {whole:.1f} s: {outcome}"
        assert "Traceback" not in outcome.err, outcome.err
        count += 1
        goes_on(name, words, folder / f"{number}", expected)
    print(f"{name}: {count} of {times} were interrupted")
    return count


def says_it_stopped(folder: Path) -> bool:
    """Whether a run has ended its steps; it then evaluates the best encoder so far."""
    log = folder / "out" / "run" / "train.log"
    return log.exists() and "stopped after step" in log.read_text()


def seconds_used(command: Running, seconds: float = math.inf, until: Callable[[], bool] = lambda: False) -> float:
    """Waits until a command has used this much processor time, or has ended; returns how much it has used."""
    used = 0.0
    with suppress(OSError):  # it has ended
        while used < seconds and not until():
            *_, fields = Path(f"/proc/{command.process.pid}/stat").read_text().rpartition(")")
            used = sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")
            time.sleep(0.005)
    return used


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
