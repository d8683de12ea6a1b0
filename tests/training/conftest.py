"""A run on the tiny model, and the options that make it short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import isotune
from isotune.training import Result


@pytest.fixture
def short(tiny_model: Path, text: Path, pairs: Path) -> dict[str, Any]:
    """Keyword arguments of a run of 12 steps, in float32 on every machine."""
    return {
        "sources": text,
        "model": str(tiny_model),
        "method": "simcse",
        "dev": str(pairs),
        "tasks": [str(pairs)],
        "batch_size": 8,
        "steps": 12,
        "eval_every": 4,
        "learning_rate": 1e-3,
        "precision": "float32",
        "quiet": True,
    }


@pytest.fixture
def train(short: dict[str, Any], tmp_path: Path) -> Callable[..., Result]:
    """Runs `isotune.train` with these, and with what is given over them; None takes one away."""

    def run(name: str = "run", **options: Any) -> Result:
        given = {**short, "out": tmp_path / name, **options}
        return isotune.train(**{key: value for key, value in given.items() if value is not None})

    return run
