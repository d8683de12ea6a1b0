"""One process for each run: how it ends, and that none is left of a study that was stopped."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from isotune.encoder.options import EncoderOptions
from isotune.lab.studies import job as job_module
from isotune.lab.studies.job import Job, Processes
from tests.conftest import until

Write = Callable[[dict[str, Any]], Path]

DOUBLE = """
import json, os, signal, sys, time
folder = json.loads(sys.stdin.readline())["folder"]
print("some words", flush=True)
match os.path.basename(folder):
    case "fails":
        sys.exit("the reason")
    case "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    case "threads":
        sys.exit(os.environ["OMP_NUM_THREADS"])
    case "stays":
        open(folder, "w").close()
        time.sleep(60)
"""


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Job]:
    """Jobs whose process only says how it ends, by the name of the run."""
    monkeypatch.setattr(job_module, "COMMAND", (sys.executable, "-c", DOUBLE))
    return lambda name: Job(
        folder=tmp_path / name, recipe=None, model="none", encoder=EncoderOptions(), tasks=(), keep=False
    )


def test_a_process_that_dies_fails_only_its_own_run(job: Callable[[str], Job], tmp_path: Path) -> None:
    problems = {}
    with Processes(2, 3) as running:
        waiting = [job(name) for name in ("made", "fails", "dies", "threads")]
        while len(problems) < 4:
            while waiting and running.may_start:
                running.start(waiting.pop(0))
            ended, problem = running.wait()
            problems[ended.folder.name] = problem
    hint = (
        f"its process was killed by SIGKILL, perhaps because memory ran out: use fewer processes; {tmp_path}/dies.log"
    )
    assert problems == {"made": "", "fails": "the reason", "dies": f"{hint} may say more", "threads": "3"}
    assert sorted(path.name for path in tmp_path.glob("*.log")) == ["dies.log", "fails.log", "threads.log"]
    assert (tmp_path / "fails.log").read_text() == "some words\nthe reason\n"


def test_no_process_outlives_the_block(job: Callable[[str], Job], tmp_path: Path) -> None:
    with Processes(1, 1) as running:
        running.start(job("stays"))
        assert not running.may_start
        (process,) = running._running
        until(lambda: (tmp_path / "stays").exists())
    assert process.returncode == -signal.SIGKILL


def start(path: Path, out: Path, model: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "isotune", "study", str(path), "--out", str(out), "--model", str(model)]
    with (out.parent / "log").open("ab") as file:
        return subprocess.Popen([*command, "--processes", "2", "--threads", "1"], stderr=file, stdout=file)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_stopped_study_leaves_no_process_and_repeats_no_run(
    table: dict[str, Any], write: Write, tiny_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    table["options"] |= {"steps": 60, "eval_every": 5}
    path, out = write(table), tmp_path / "out"
    runs = out / "runs"
    process = start(path, out, tiny_model)
    until(lambda: len([*runs.glob("*/SHA256SUMS")]) >= 3 and any(runs.glob("*/last.safetensors")), 300)
    before = {path: path.stat().st_mtime_ns for path in runs.glob("*/SHA256SUMS")}
    process.send_signal(number)
    for lock in runs.glob("*.lock"):  # held by each process that makes a run
        FileLock(lock).acquire(timeout=2)
    assert process.wait() == (130 if number == signal.SIGINT else -number)
    assert len([*runs.glob("*/metrics.jsonl")]) < 8
    assert start(path, out, tiny_model).wait() == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len([*runs.glob("*/metrics.jsonl")]) == 8
    assert (out / "study.html").exists()
