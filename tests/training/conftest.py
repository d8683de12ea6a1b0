"""What stops, resumes and compares runs."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import isotune
import isotune.training.teachers
from isotune.engine.step import Stepper
from isotune.methods import self_guided
from isotune.training import Result

Train = Callable[..., Result]


@pytest.fixture(autouse=True)
def _a_share_for_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tests' batches, too, which are small."""
    monkeypatch.setattr("isotune.engine.workers.SMALLEST", 1)


@pytest.fixture(autouse=True)
def kept_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which teachers keep the vectors of tasks, in place of the user's."""
    folder = tmp_path / "kept-vectors"
    monkeypatch.setattr(isotune.training.teachers, "cache_folder", lambda _: folder)
    return folder


@pytest.fixture
def small_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_guided, "PROJECTION_WIDTH", 32)


class Killed(BaseException):
    """Stands for a process that ends at once: nothing may run after it but what the language itself
    does."""


def killed(*_: object) -> None:
    raise Killed


def resume(folder: Path, **options: Any) -> Result:
    """Goes on with a run."""
    return isotune.train(out=folder, resume=True, quiet=True, **options)


@contextmanager
def stopped_at(total: int, number: int = signal.SIGTERM) -> Iterator[None]:
    """Within it, a run gets a signal in update number `total`, counted from 0 over all stages."""
    update, count = Stepper.update, iter(range(1000))

    def interrupted(self: Stepper, step: int) -> Any:
        if next(count) == total:
            os.kill(os.getpid(), number)
        return update(self, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "update", interrupted)
        yield


def stop_and_resume(train: Train, total: int, **options: Any) -> Result:
    """A run that is stopped in update number `total`, and resumed."""
    with stopped_at(total):
        stopped = train(f"stopped-{total}", **options)
    assert stopped.stopped == "SIGTERM"
    return resume(stopped.folder)


def metrics(run: Path, kind: str) -> list[dict[str, Any]]:
    """The records of a kind."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["kind"] == kind]


def weights(run: Path) -> dict[str, torch.Tensor]:
    """The weights of the kept encoder."""
    return load_file(run / "encoder" / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Whether two files hold the same bits."""
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def assert_same_end(a: Path, b: Path) -> None:
    """Two runs have the same checkpoint, the same encoder and the same records."""
    assert same(*(load_file(run / "last.safetensors") for run in (a, b)))
    assert same(weights(a), weights(b))
    for kind in ("dev", "warning", "test"):
        assert metrics(a, kind) == metrics(b, kind)
    of_b = metrics(
        b, "space"
    )  # without dev pairs, also those of the step where the run was stopped
    assert all(record in of_b for record in metrics(a, "space"))
    assert len(list(b.glob("best-*"))) == 1
