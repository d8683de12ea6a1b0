"""A run that starts from an encoder in memory: isotune's, or sentence-transformers'."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.recipes import read_recipe
from isotune.training import train


@pytest.fixture
def options(pairs: Path) -> dict[str, Any]:
    """Of a run of one step."""
    return {"method": "simcse", "dev": "none", "tasks": [str(pairs)], "batch_size": 8, "steps": 1, "quiet": True}


@pytest.fixture
def start(tiny_model: Path, tmp_path: Path) -> Encoder:
    """An encoder that lies in no folder."""
    encoder = Encoder.load(tiny_model, pooling="max")
    encoder.heads.append(Dense(32, 16))
    return encoder.eval()


def test_a_sentence_transformer(
    start: Encoder, options: dict[str, Any], text: Path, tmp_path: Path, sentences: list[str]
) -> None:
    start.save(tmp_path / "saved")
    transformer = SentenceTransformer(str(tmp_path / "saved"))
    expected = transformer.encode(sentences)
    result = train(text, out=tmp_path / "run", model=transformer, **{**options, "steps": 2})
    assert result.encoder == tmp_path / "run" / "encoder"
    np.testing.assert_array_equal(transformer.encode(sentences), expected)  # the start is not changed
    np.testing.assert_allclose(Encoder.load(tmp_path / "run" / "start").encode(sentences), expected, atol=1e-6)
    assert abs(Encoder.load(result.encoder).encode(sentences) - expected).max() > 1e-6


def test_an_encoder(start: Encoder, options: dict[str, Any], text: Path, tmp_path: Path, sentences: list[str]) -> None:
    result = train(text, out=tmp_path / "run", model=start, learning_rate=1e-12, **options)
    np.testing.assert_allclose(Encoder.load(result.encoder).encode(sentences), start.encode(sentences), atol=1e-5)
    assert "the model is" not in (tmp_path / "run" / "train.log").read_text()  # a chosen recipe is not explained


def test_a_finished_encoder_takes_the_recipe_for_encoders(
    start: Encoder, options: dict[str, Any], text: Path, tmp_path: Path
) -> None:
    start.save(tmp_path / "saved")
    for number, model in enumerate([start, str(tmp_path / "saved")]):
        run = tmp_path / f"run{number}"
        train(text, out=run, model=model, **{**options, "method": None})
        assert tomllib.loads((run / "recipe.toml").read_text())["title"] == read_recipe("adapt")["title"]
        assert "recipe: adapt; the model is a finished encoder" in (run / "train.log").read_text()


ALIKE = [f"{a} {b} is in {c} house ." for a in ("a", "the") for b in ("dog", "cat", "man") for c in ("a", "the")]
CUT: dict[str, Any] = {
    **{"method": "consert", "augmentations": ("token_cutoff", "token_cutoff"), "token_cutoff_rate": 0.5},
    **{"batch_size": 4, "steps": 2},
}


def test_sentences_that_a_view_can_t_tell_apart_keep_the_start(
    start: Encoder, options: dict[str, Any], tmp_path: Path
) -> None:
    result = train(rows=ALIKE, out=tmp_path / "run", model=start, **{**options, **CUT, "least_told_apart": 0.99})
    assert result.evaluation.selected_step == 0
    np.testing.assert_array_equal(Encoder.load(result.encoder).encode(ALIKE), start.encode(ALIKE))
    log = (result.folder / "train.log").read_text()
    assert "sentences differ by too few words to train on); the start is kept" in log
    assert "Training did not help" in result.report.read_text()


@pytest.mark.parametrize("guarded", [False, True])
def test_no_guard_was_asked_for_or_dev_pairs_choose(
    start: Encoder, options: dict[str, Any], tmp_path: Path, guarded: bool
) -> None:
    changed = {"least_told_apart": 0.99, "dev": options["tasks"][0]} if guarded else {}
    train(rows=ALIKE, out=tmp_path / "run", model=start, **{**options, **CUT, **changed})
    log = (tmp_path / "run" / "train.log").read_text()
    assert "too few words" not in log
    assert "step 2 of 2" in log
