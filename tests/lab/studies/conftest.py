"""A small study of the tiny model, and processes that are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from isotune.errors import InputError
from isotune.lab.studies import engine, run, worker
from isotune.lab.studies.worker import Job, Stopped, make


class InThisProcess:
    """Makes runs as `Processes` does, one after the other and here.

    Attributes:
        made: the keys of those that it was asked to make.
    """

    count = threads = 1
    made: list[str]

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None: ...

    def make(
        self, jobs: Sequence[Job], stop: Any, done: Callable[[Job, str], None], admit: Callable[[Job], bool]
    ) -> None:
        for job in jobs:
            if stop.received or not admit(job):
                continue
            self.made.append(job.folder.name)
            problem = ""
            try:
                make(job)
            except Stopped:
                continue
            except InputError as error:
                problem = str(error)
            done(job, problem)


def empty_report(folder: Path) -> Path:
    """In place of a run's page, most of whose time is drawing."""
    page = folder / "report.html"
    page.touch()
    return page


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, pairs: Path) -> list[str]:
    """The keys of the runs that studies make from now on: in this process, on little data, with no figures."""
    keys: list[str] = []
    monkeypatch.setattr(engine, "QUICK_TASKS", (str(pairs),))
    monkeypatch.setattr(worker, "SPEED_SENTENCES", 20)
    monkeypatch.setattr("isotune.training.run.write_report", empty_report)
    monkeypatch.setattr(InThisProcess, "made", keys, raising=False)
    monkeypatch.setattr(run, "Processes", InThisProcess)
    return keys


@pytest.fixture
def table(text: Path, pairs: Path) -> dict[str, Any]:
    """Two arms x two cells x two seeds, and the model as it is."""
    return {
        "title": "A small study",
        "seeds": [0, 1],
        "tasks": [str(pairs)],
        "scores": [str(pairs), "dev", "steps"],
        "options": {"steps": 6, "eval_every": 3, "batch_size": 8, "dev": str(pairs), "learning_rate": 1e-3},
        "grid": {"temperature": [0.05, 0.5]},
        "arms": [
            {"name": "as it is", "options": {"pooling": "mean"}},
            {"name": "SimCSE", "method": "simcse", "data": [str(text)], "options": {"projection": False}},
            {"name": "ConSERT", "method": "consert", "data": [str(text)]},
        ],
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """Writes a study's file."""

    def write_study(table: dict[str, Any]) -> Path:
        path = tmp_path / "study.toml"
        path.write_text(tomli_w.dumps(table))
        return path

    return write_study
