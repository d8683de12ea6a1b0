"""A run on the tiny model: sentences, scored pairs, and the options that make it short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import isotune
from isotune.training import Result


@pytest.fixture
def text(sentences: list[str], tmp_path: Path) -> Path:
    """The sentences in a file."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(sentences) + "\n")
    return path


@pytest.fixture
def pairs(sentences: list[str], tmp_path: Path) -> Path:
    """Scored pairs: a sentence and one that shares its first words, more of them for a higher score."""
    lines = ["sentence1\tsentence2\tscore"]
    for i, sentence in enumerate(sentences[:30]):
        words, score = sentence.split(), i % 6
        other = words[: len(words) * score // 5] + sentences[i + 30].split()[: 1 + len(words) * (5 - score) // 5]
        lines.append(f"{sentence}\t{' '.join(other)}\t{score}")
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def short(tiny_model: Path, text: Path, pairs: Path) -> dict[str, Any]:
    """Keyword arguments of a run of 12 steps."""
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
        "quiet": True,
    }


@pytest.fixture
def train(short: dict[str, Any], tmp_path: Path) -> Callable[..., Result]:
    """Runs `isotune.train` with these, and with what is given over them; None takes one away."""

    def run(name: str = "run", **options: Any) -> Result:
        given = {**short, "out": tmp_path / name, **options}
        return isotune.train(**{key: value for key, value in given.items() if value is not None})

    return run
