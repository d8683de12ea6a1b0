"""A run that starts from an encoder in memory: isotune's, or sentence-transformers'."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.errors import InputError
from isotune.recipes import read_recipe
from isotune.training import train

OPTIONS: dict[str, Any] = {"method": "simcse", "dev": "none", "tasks": ["stsb-open"], "batch_size": 8, "quiet": True}


@pytest.fixture
def start(tiny_model: Path, tmp_path: Path) -> Encoder:
    """An encoder that lies in no folder."""
    encoder = Encoder.load(tiny_model, pooling="max")
    encoder.heads.append(Dense(32, 16))
    return encoder.eval()


def test_a_sentence_transformer(start: Encoder, text: Path, tmp_path: Path, sentences: list[str]) -> None:
    start.save(tmp_path / "saved")
    transformer = SentenceTransformer(str(tmp_path / "saved"))
    expected = transformer.encode(sentences)
    result = train(text, out=tmp_path / "run", model=transformer, **{**OPTIONS, "steps": 2})
    assert result.encoder == tmp_path / "run" / "encoder"
    np.testing.assert_array_equal(transformer.encode(sentences), expected)  # the start is not changed
    np.testing.assert_allclose(Encoder.load(tmp_path / "run" / "start").encode(sentences), expected, atol=1e-6)
    assert abs(Encoder.load(result.encoder).encode(sentences) - expected).max() > 1e-6


def test_an_encoder(start: Encoder, text: Path, tmp_path: Path, sentences: list[str]) -> None:
    result = train(text, out=tmp_path / "run", model=start, **{**OPTIONS, "steps": 1, "learning_rate": 1e-12})
    np.testing.assert_allclose(Encoder.load(result.encoder).encode(sentences), start.encode(sentences), atol=1e-5)


def test_a_run_that_can_t_start_leaves_nothing(start: Encoder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        train(tmp_path / "missing.txt", out=tmp_path / "run", model=start, **{**OPTIONS, "steps": 1})
    assert not (tmp_path / "run").exists()


def test_a_finished_encoder_takes_the_recipe_for_encoders(start: Encoder, text: Path, tmp_path: Path) -> None:
    start.save(tmp_path / "saved")
    options: dict[str, Any] = {"tasks": ["stsb-open"], "steps": 1, "batch_size": 4, "quiet": True}
    for number, model in enumerate([start, str(tmp_path / "saved")]):
        run = tmp_path / f"run{number}"
        train(text, out=run, model=model, **options)
        assert tomllib.loads((run / "recipe.toml").read_text())["title"] == read_recipe("adapt")["title"]
        assert "recipe: adapt; the model is a finished encoder" in (run / "train.log").read_text()


def test_a_chosen_recipe_is_not_explained(start: Encoder, text: Path, tmp_path: Path) -> None:
    train(text, out=tmp_path / "run", model=start, **{**OPTIONS, "steps": 1})
    assert "the model is" not in (tmp_path / "run" / "train.log").read_text()


ALIKE = [f"{a} {b} is in {c} house ." for a in ("a", "the") for b in ("dog", "cat", "man") for c in ("a", "the")]
CUT: dict[str, Any] = {
    **{"method": "consert", "augmentations": ("token_cutoff", "token_cutoff"), "token_cutoff_rate": 0.5},
    **{"tasks": ["stsb-open"], "batch_size": 4, "steps": 2, "quiet": True},
}


def test_sentences_that_a_view_can_t_tell_apart_keep_the_start(start: Encoder, tmp_path: Path) -> None:
    result = train(rows=ALIKE, out=tmp_path / "run", model=start, dev="none", least_told_apart=0.99, **CUT)
    assert result.evaluation.selected_step == 0
    np.testing.assert_array_equal(Encoder.load(result.encoder).encode(ALIKE), start.encode(ALIKE))
    assert (
        "sentences differ by too few words to train on); the start is kept" in (result.folder / "train.log").read_text()
    )
    page = result.report.read_text()
    assert "Training did not help" in page
    assert "Keep what you had" in page


@pytest.mark.parametrize("changed", [{"dev": "none"}, {"least_told_apart": 0.99, "dev": "stsb-open:dev"}])
def test_no_guard_was_asked_for_or_dev_pairs_choose(start: Encoder, tmp_path: Path, changed: dict[str, Any]) -> None:
    train(rows=ALIKE, out=tmp_path / "run", model=start, **CUT, **changed)
    log = (tmp_path / "run" / "train.log").read_text()
    assert "too few words" not in log
    assert "step 2 of 2" in log
