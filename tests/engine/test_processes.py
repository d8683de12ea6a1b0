"""Processes that make a step together: loss and gradient are those of a single process."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import HashStore

from isotune.engine.workers import workers_of_run
from isotune.errors import InputError
from isotune.methods import self_guided
from isotune.training.run_folder import is_finished
from tests.engine.ranks import CHUNK_SIZES, GROUPS, PROCESSES, make_steps, train_with_error
from tests.engine.steps import STEPS, assert_same, gradient, make
from tests.training.conftest import metrics

SOME = {"simcse and mlm", "adversarial", "bert-cf, joint", "self-guided, one layer"}
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["tests.engine.ranks"])  # so that torch is imported once


def in_processes(count: int, act: Callable[..., object], *arguments: object) -> list[int | None]:
    """Has so many processes act, each with its rank; returns their exit codes."""
    processes = [FORKSERVER.Process(target=act, args=(rank, *arguments)) for rank in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
    return [process.exitcode for process in processes]


@pytest.mark.parametrize(
    "names", [SOME, pytest.param({*STEPS} - SOME, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_every_process_gets_the_loss_and_gradient_of_a_single_process(
    names: set[str],
    tiny_model: Path,
    sentences: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(self_guided, "PROJECTION_WIDTH", 32)
    codes = in_processes(PROCESSES, make_steps, sorted(names), tiny_model, sentences, tmp_path)
    assert codes == [0] * PROCESSES
    steps = [dict(np.load(tmp_path / f"{rank}.npz")) for rank in range(PROCESSES)]
    for name in names:
        expected = gradient(*make(name, tiny_model, sentences))
        for count, threads in GROUPS:
            for chunk_size in CHUNK_SIZES:
                results = [
                    steps[rank][f"{name} {count} {threads} {chunk_size}"] for rank in range(count)
                ]
                # Weights can't drift apart.
                assert all(
                    np.array_equal(result, results[0], equal_nan=True) for result in results
                ), name
                assert_same(torch.from_numpy(results[0]), expected)


ERRORS = {
    "error: no such model\n": InputError("no such model"),
    "error: report.html: No space left on device\n": OSError(
        28, "No space left on device", "report.html"
    ),
    "ZeroDivisionError: a mistake in the code\n": ZeroDivisionError("a mistake in the code"),
}
PLACES = [
    (0, "isotune.training.run_folder.create"),
    (0, "isotune.data.tokens.TokenDataset.build"),
    (1, "isotune.data.tokens.TokenDataset.build"),
    (1, "isotune.engine.step.Stepper.update"),
]


@pytest.mark.parametrize("message", ERRORS)
@pytest.mark.parametrize(("failing", "place"), PLACES)
def test_an_error_of_one_process_ends_all_of_them(
    failing: int, place: str, message: str, tiny_model: Path, text: Path, tmp_path: Path
) -> None:
    """At once, with the error of this process and a line in the others that points to it."""
    options = [
        f"--model={tiny_model}",
        "--dev=none",
        "--tasks=stsb-open",
        "--steps=2",
        "--batch-size=8",
    ]
    words = ["train", str(text), "--method=simcse", *options, f"--out={tmp_path / 'run'}"]
    codes = in_processes(2, train_with_error, failing, place, ERRORS[message], words, tmp_path)
    said, other = ((tmp_path / f"{rank}.txt").read_text() for rank in (failing, 1 - failing))
    assert said.endswith(message)
    assert [text.count("Traceback") for text in (said, other)] == [
        not message.startswith("error"),
        0,
    ]
    assert other.endswith(
        "error: another process of the run has ended; what it has printed says why\n"
    )
    assert (codes[failing], codes[1 - failing]) == (2 if message.startswith("error") else 1, 2)


COMMAND = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=3"]
RUN = ["-m", "isotune", "train", "stsb-open:train", "--recipe", "default", "--tasks", "stsb-open"]
RUN += ["--steps", "24", "--batch-size", "16"]


def start(out: Path, *launcher: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # In bfloat16, a batch that is cut otherwise is rounded otherwise.
    options = [
        "--precision",
        "float32",
        "--eval-every",
        "4",
        "--keep-checkpoints",
        "--out",
        str(out),
    ]
    command = [*(launcher or (sys.executable,)), *RUN, *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def losses(run: Path) -> list[float]:
    return [record["loss"] for record in metrics(run, "train")]


def test_a_run_by_two_processes_is_finished_once(tmp_path: Path) -> None:
    options = [
        "--method=simcse",
        "--dev=none",
        "--tasks=stsb-open",
        "--sample=64",
        "--steps=2",
        "--batch-size=16",
    ]
    command = [
        *COMMAND[:-1],
        "-m",
        "isotune",
        "train",
        "stsb-open:train",
        *options,
        f"--out={tmp_path / 'run'}",
    ]
    ended = subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert is_finished(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_run_whose_rank_is_killed_goes_on_by_itself_to_the_same_end(
    tmp_path: Path, seed: int
) -> None:
    assert start(tmp_path / "alone").wait() == 0
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(whole, *COMMAND).wait() == 0
    process, records = start(killed, *COMMAND), killed / "metrics.jsonl"
    recorded = random.Random(seed).random() * (whole / "metrics.jsonl").stat().st_size
    while not (records.exists() and records.stat().st_size >= recorded):
        assert process.poll() is None
        time.sleep(0.01)
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    ).stdout
    os.kill(int(random.Random(seed).choice(children.split())), signal.SIGKILL)
    assert process.wait() == 0
    assert losses(killed) == losses(whole) == pytest.approx(losses(tmp_path / "alone"), rel=1e-5)
    for name in ("encoder/model.safetensors", "last.safetensors"):
        ours, theirs = load_file(killed / name), load_file(whole / name)
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs), name


LAUNCH = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


@pytest.mark.parametrize("missing", sorted(LAUNCH.keys() - {"WORLD_SIZE"}))
def test_a_launcher_that_sets_too_little_is_told_so(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LAUNCH.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(missing)
    with (
        pytest.raises(InputError, match=f"WORLD_SIZE is 2, but {missing} is not set: start"),
        workers_of_run(),
    ):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_no_thread_of_a_group_outlives_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LAUNCH.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("isotune.engine.workers.rendezvous", lambda *_: iter([(HashStore(), 0, 1)]))

    def names() -> list[str]:
        return [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]

    with workers_of_run() as workers:
        assert workers.all_reduce_max(3) == 3
        assert any("gloo" in name for name in names())
    assert not any("gloo" in name for name in names())


@pytest.mark.parametrize(("variables", "chosen"), [({}, [1]), ({"LOCAL_RANK": "0"}, [])])
def test_processes_have_a_gpu_each_and_wait_for_one_that_makes_texts_for_days(
    variables: dict[str, str], chosen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**LAUNCH, "RANK": "5", **variables}.items():
        monkeypatch.setenv(name, value)
    gpus: list[int] = []
    given: dict[str, Any] = {}

    def init(*_: object, **options: object) -> None:
        given.update(options)
        raise InterruptedError

    monkeypatch.setattr("isotune.engine.workers.default_device", lambda: "cuda")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    monkeypatch.setattr("torch.cuda.set_device", gpus.append)
    monkeypatch.setattr("isotune.engine.workers.rendezvous", lambda *_: iter([(HashStore(), 0, 2)]))
    monkeypatch.setattr("isotune.engine.workers.dist.init_process_group", init)
    with pytest.raises(InterruptedError), workers_of_run():
        pass
    assert given["timeout"] > timedelta(days=1)
    assert gpus == chosen
