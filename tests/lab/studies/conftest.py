"""A small study of the tiny model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from isotune.lab.studies import run_study
from isotune.lab.studies.job import Job, try_to_make


def empty_report(folder: Path) -> Path:
    """Replaces the report of a run, because drawing it takes most of a short run's time."""
    page = folder / "report.html"
    page.touch()
    return page


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, pairs: Path) -> list[str]:
    """The keys of the runs that studies make from now on, on little data and without figures."""
    keys: list[str] = []

    def kept(job: Job) -> str:
        keys.append(job.folder.name)
        return try_to_make(job)

    monkeypatch.setattr(run_study, "QUICK_TASKS", (str(pairs),))
    monkeypatch.setattr("isotune.training.run.write_report", empty_report)
    monkeypatch.setattr(run_study, "try_to_make", kept)
    return keys


@pytest.fixture
def table(text: Path, pairs: Path) -> dict[str, Any]:
    """Two arms x two cells x two seeds, and the model as it is."""
    small = small_study(str(text), str(pairs))
    small["arms"].append({"name": "ConSERT", "method": "consert", "data": [str(text)]})
    return {**small, "grid": {"temperature": [0.05, 0.5]}}


def small_study(text: str, pairs: str) -> dict[str, Any]:
    """SimCSE with two seeds, and the model as it is."""
    return {
        "title": "A small study",
        "seeds": [0, 1],
        "tasks": [pairs],
        "scores": [pairs, "dev", "steps"],
        "options": {
            "steps": 2,
            "eval_every": 1,
            "batch_size": 8,
            "dev": pairs,
            "learning_rate": 1e-3,
        },
        "arms": [
            {"name": "as it is", "options": {"pooling": "mean"}},
            {
                "name": "SimCSE",
                "method": "simcse",
                "data": [text],
                "options": {"projection": False},
            },
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
