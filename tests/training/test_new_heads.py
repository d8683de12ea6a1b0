"""Stages whose method brings new layers: they stay only if they are worth it, on a resume too."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isotune
from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.evaluation import cosine_similarities
from isotune.training import Result
from isotune.training.step import Stepper

Train = Callable[..., Result]

RECIPE = """
[[stages]]
method = "{method}"

[[stages]]
method = "simcse"
projection = false
learning_rate = 1e-3
steps = 4
eval_every = 2
"""


@pytest.fixture(params=["whitening", "sif"])
def recipe(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(RECIPE.format(method=request.param))
    return path


@pytest.fixture
def perfect(tiny_model: Path, pairs: Path, tmp_path: Path) -> str:
    """Scored pairs on which nothing is better than the untouched model: the scores are its own cosines."""
    given = read_scored_pairs(pairs)
    cosines = cosine_similarities(Encoder.load(tiny_model), given)
    lines = [f"{a}\t{b}\t{c:.9f}" for a, b, c in zip(given.sentence1, given.sentence2, cosines, strict=True)]
    path = tmp_path / "perfect.tsv"
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    return str(path)


def test_layers_that_gain_nothing_are_dropped(
    train: Train, recipe: Path, perfect: str, tiny_model: Path, sentences: list[str]
) -> None:
    result = train(method=None, recipe=recipe, dev=perfect, steps=None, eval_every=None, learning_rate=None)
    kept = Encoder.load(result.encoder)
    assert result.evaluation.selected_step == 0
    assert len(kept.heads) == 0
    assert kept.token_weights is None
    np.testing.assert_allclose(kept.encode(sentences), Encoder.load(tiny_model).encode(sentences), atol=1e-6)
    assert "the new layers: the layers are dropped" in (result.folder / "train.log").read_text()


@pytest.mark.parametrize("dev", ["perfect", "none"])
def test_a_run_goes_on_with_or_without_them(
    train: Train, recipe: Path, perfect: str, dev: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"method": None, "recipe": recipe, "dev": perfect if dev == "perfect" else "none"}
    options |= {"steps": None, "eval_every": None, "learning_rate": None}
    whole = train("whole", **options)
    step = Stepper.update

    def interrupted(self: Stepper, number: int) -> Any:
        if self._stage == 1 and number == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, number)

    monkeypatch.setattr(Stepper, "update", interrupted)
    assert train("part", **options).stopped == "SIGTERM"
    monkeypatch.undo()
    for finished in ("whitening.Whitening", "sif.SIF"):  # a finished stage isn't built again
        monkeypatch.setattr(f"isotune.methods.{finished}.__init__", None)
    part = isotune.train(out=tmp_path / "part", resume=True, quiet=True)
    a, b = (Encoder.load(result.encoder) for result in (whole, part))
    assert len(a.heads) == len(b.heads) == (0 if dev == "perfect" else 1)
    assert all(x.equal(y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
