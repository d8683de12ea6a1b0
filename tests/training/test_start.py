"""A run that starts from an encoder in memory: isotune's, or sentence-transformers'."""

import signal
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
from tests.training.conftest import metrics


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


FORGETTING: dict[str, Any] = {"learning_rate": 0.1, "warmup": 0.0, "steps": 4, "eval_every": 1}


def lost(run: Path) -> list[float]:
    """What a run has lost on general pairs, at each evaluation."""
    return [record["lost"] for record in metrics(run, "general")]


def test_a_stage_ends_where_the_encoder_has_forgotten_too_much(
    start: Encoder, options: dict[str, Any], text: Path, tmp_path: Path
) -> None:
    free, bound = (
        train(text, out=tmp_path / name, model=start, **{**options, **FORGETTING, "most_forgotten": most})
        for name, most in (("free", 100), ("bound", 0))
    )
    assert free.evaluation.selected_step == 4
    whole = lost(free.folder)
    assert whole[0] == 0
    first = next(step for step, points in enumerate(whole) if points > 0)  # too much, where nothing may be lost
    assert lost(bound.folder) == whole[: first + 1]
    assert bound.evaluation.selected_step == first - 1
    log = (bound.folder / "train.log").read_text()
    assert f"the encoder has lost {whole[first]:.2f} on the general pairs (stsb-open:dev)" in log
    assert log.rstrip().endswith(bound.evaluation.decision)
    scored = [task.name for task in bound.evaluation.after.tasks]
    assert scored == [options["tasks"][0], "stsb-open"]  # what was forgotten is reported


def test_a_stop_between_two_evaluations_does_not_change_which_step_is_kept(
    start: Encoder, options: dict[str, Any], text: Path, pairs: Path, tmp_path: Path
) -> None:
    bound = {**options, **FORGETTING, "learning_rate": 1e-3, "steps": 20, "eval_every": 20, "most_forgotten": 1.0}
    bound["dev"] = str(pairs)

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["step"] == 10:
            signal.raise_signal(signal.SIGINT)

    start.save(tmp_path / "saved")
    model = str(tmp_path / "saved")
    whole = train(text, out=tmp_path / "whole", model=model, **bound)
    assert train(text, out=tmp_path / "stopped", model=model, watch=stop, **bound).stopped == "SIGINT"
    resumed = train(out=tmp_path / "stopped", resume=True, quiet=True)
    assert lost(resumed.folder) == lost(whole.folder)
    assert resumed.evaluation.selected_step == whole.evaluation.selected_step
