"""Stages whose method brings new layers: they stay only if they are worth it, on a resume too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotune.data import read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.evaluation import cosine_similarities
from tests.training.conftest import Train, assert_same_end, resume, stopped_at


@pytest.fixture
def perfect(tiny_model: Path, pairs: Path, tmp_path: Path) -> str:
    """Scored pairs on which nothing is better than the untouched model: the scores are its own
    cosines."""
    given = read_scored_pairs(pairs)
    cosines = cosine_similarities(Encoder.load(tiny_model), given)
    lines = [
        f"{a}\t{b}\t{c:.9f}"
        for a, b, c in zip(given.sentence1, given.sentence2, cosines, strict=True)
    ]
    path = tmp_path / "perfect.tsv"
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    return str(path)


@pytest.mark.parametrize("method", ["whitening", "sif"])
@pytest.mark.parametrize("dev", ["perfect", "none"])
def test_layers_that_gain_nothing_are_dropped_in_a_resumed_run_too(
    train: Train, method: str, perfect: str, dev: str, tiny_model: Path, sentences: list[str]
) -> None:
    gains = dev == "none"  # where nothing is scored, the layers stay
    second = {
        "method": "simcse",
        "projection": False,
        "learning_rate": 1e-3,
        "steps": 4,
        "eval_every": 2,
    }
    options: dict[str, Any] = {
        "stages": [{"method": method}, second],
        "dev": dev if gains else perfect,
    }
    options |= {"steps": None, "eval_every": None, "learning_rate": None}
    whole = train("whole", **options)
    kept = whole.encoder
    assert len(kept.heads) == gains
    if not gains:
        assert whole.evaluation.selected_step == 0
        assert kept.token_weights is None
        np.testing.assert_allclose(
            kept.encode(sentences), Encoder.load(tiny_model).encode(sentences), atol=1e-6
        )
        assert "the new layers: the layers are dropped" in (whole.folder / "train.log").read_text()
    with stopped_at(1):  # in the second stage: the first makes no step
        part = train("part", **options)
    assert_same_end(whole.folder, resume(part.folder).folder)
