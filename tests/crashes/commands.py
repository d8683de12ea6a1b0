"""Commands of isotune on small inputs, in processes that can be disturbed.

A process is forked from a server that has imported the libraries and has started no thread, so that
it begins its command at once, and may fork.
"""

import tests.hub.environment  # noqa: F401

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from isotune.cli import main
from isotune.report import figures
from tests.cli.conftest import Outcome
from tests.crashes.kills import check_whole
from tests.crashes.work import Inputs, run_result, study_result

VARYING = re.compile(
    rb'"created": "[^"]*"|(?<=chart-[mp])[0-9a-f]{10}'
)  # an evaluation's time; a figure's random ids
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__])
P = ParamSpec("P")
T = TypeVar("T")


def command_lines(inputs: Inputs) -> dict[str, list[str]]:
    """Commands that write; each writes into the folder `out` where it is called."""
    run = {
        "method": "simcse",
        "model": inputs.model,
        "dev": inputs.pairs,
        "tasks": inputs.pairs,
        "out": "out/run",
    }
    run |= {"steps": "4", "eval-every": "2", "batch-size": "8"}
    more = Path(inputs.text).with_name("more.txt")
    more.write_text("a dog eats\na man plays\n")
    encode = ["encode", inputs.model, inputs.text]
    return {
        "train": ["train", inputs.text, *(f"--{name}={value}" for name, value in run.items())],
        "analyse": [
            "analyse",
            "cosines",
            inputs.model,
            "--tasks",
            inputs.pairs,
            "--out",
            "out/analyses",
        ],
        "encode to a file": [*encode, "--out", "out/vectors.npy"],
        "encode to a folder": [*encode, str(more), "--out", "out/vectors"],
        "index": ["index", inputs.model, inputs.text, "--out", "out/index"],
        "label": [
            "label",
            inputs.text,
            "--encoders",
            inputs.model,
            "--pairs",
            "2",
            "--out",
            "out/labels.tsv",
        ],
    }


@dataclass
class Running:
    """A command that is running in a folder."""

    process: Any
    folder: Path

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if the command has not ended."""
        if self.process.is_alive():
            os.kill(self.process.pid, number)

    def outcome(self, seconds: float = 120) -> Outcome:
        """Waits for the end; a command that takes longer is taken to hang."""
        self.process.join(seconds)
        hangs = self.process.is_alive()
        if hangs:
            self.process.kill()
            self.process.join()
        out, err = (
            beside(self.folder, name).read_text("utf-8", "replace") for name in ("stdout", "stderr")
        )
        assert not hangs, f"hangs: {out} {err}"
        return Outcome(self.process.exitcode, out, err)


def start(words: list[str], folder: Path, before: Callable[[], object] | None = None) -> Running:
    """Starts a command in a folder, after `before`; returns when the command has begun."""
    folder.mkdir(exist_ok=True)
    beside(folder, "began").unlink(missing_ok=True)
    process = SERVER.Process(target=_call, args=(words, folder, before))
    process.start()
    while process.is_alive() and not beside(folder, "began").exists():
        time.sleep(0.001)
    return Running(process, folder)


def call(words: list[str], folder: Path, before: Callable[[], object] | None = None) -> Outcome:
    """Runs a command in a folder."""
    return start(words, folder, before).outcome()


def in_new_process(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """What a function returns, or raises, in a process of its own."""
    with ProcessPoolExecutor(1, SERVER) as pool:
        return pool.submit(function, *arguments, **options).result()


def beside(folder: Path, name: str) -> Path:
    """A file beside the folder of a command, which may be on a full disk."""
    return folder.with_name(f"{folder.name}.{name}")


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """Mounts a file system at a folder, by `mount` with each of these options in turn, which only
    root may do."""
    if not all(mount(folder, each) for each in options):
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(folder: Path, options: str) -> bool:
    """Calls `mount`; returns whether it worked."""
    command = ["mount", *options.split(), str(folder)]
    return subprocess.run(command, stderr=subprocess.PIPE, check=False).returncode == 0


def _call(words: list[str], folder: Path, before: Callable[[], object] | None) -> None:
    os.chdir(folder)
    figures.svg = lambda *_: "<svg></svg>"  # drawing takes half of a short run's time
    beside(folder, "stdin").write_text("3\n" * 9)  # for `label`
    sys.stdin = beside(folder, "stdin").open()
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(beside(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
    if before:
        before()
    try:
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # what a shell starts with "&" ignores it
        beside(folder, "began").touch()
        code = main(words)
        beside(folder, "ended").touch()
    except KeyboardInterrupt:  # just before or after the command
        code = 128 + signal.SIGINT
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def assert_refused(outcome: Outcome) -> None:
    """The command ended with one clear line."""
    assert outcome.code == 2, outcome
    *before, line = outcome.err.splitlines()
    assert line.startswith("error: "), outcome.err
    assert not any("Traceback" in text or text.startswith("error: ") for text in before), (
        outcome.err
    )


def goes_on(
    words: list[str], folder: Path, expected: object, before: Callable[[], object] | None = None
) -> None:
    """What a disturbed command has left is whole, and the command, given again, ends as the
    undisturbed one."""
    check_whole(folder)
    resumes = words[0] == "train" and (folder / "out" / "run" / "recipe.toml").exists()
    outcome = call(["train", "--out", "out/run", "--resume"] if resumes else words, folder, before)
    assert outcome.code == 0 or "this run is finished" in outcome.err, outcome
    assert result(words, folder) == expected, f"{words}: another result after it was disturbed"


def result(words: list[str], folder: Path) -> object:
    """What a command has made."""
    if words[0] == "train":
        return run_result(folder / "out" / "run")
    if words[0] == "study":
        return study_result(folder / "out" / "study")
    if words[0] == "index":
        return call(["rows", "out/index", "-k", "100"], folder).out
    out = folder / "out"
    files = {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file()
    }
    return {name: VARYING.sub(b"", content) for name, content in files.items()}
