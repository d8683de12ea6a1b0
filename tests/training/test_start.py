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
from isotune.recipes import read_recipe, recipe_of_model
from tests.training.conftest import Train, metrics, resume


@pytest.fixture
def start(tiny_model: Path, tmp_path: Path) -> Encoder:
    """An encoder that lies in no folder."""
    encoder = Encoder.load(tiny_model, pooling="max")
    encoder.heads.append(Dense(32, 16))
    return encoder.eval()


def test_a_sentence_transformer(
    start: Encoder, train: Train, tmp_path: Path, sentences: list[str]
) -> None:
    start.save(tmp_path / "saved")
    transformer = SentenceTransformer(str(tmp_path / "saved"))
    expected = transformer.encode(sentences)
    result = train(model=transformer, dev="none", steps=2)
    assert result.folder == tmp_path / "run"
    np.testing.assert_array_equal(
        transformer.encode(sentences), expected
    )  # the start is not changed
    np.testing.assert_allclose(
        Encoder.load(tmp_path / "run" / "start").encode(sentences), expected, atol=1e-6
    )
    assert abs(result.encoder.encode(sentences) - expected).max() > 1e-6
    assert (
        "the model is" not in (tmp_path / "run" / "train.log").read_text()
    )  # a chosen recipe is not explained


def test_a_finished_encoder_takes_the_recipe_for_encoders(
    start: Encoder, train: Train, tmp_path: Path
) -> None:
    start.save(tmp_path / "saved")
    for number, model in enumerate([start, str(tmp_path / "saved")]):
        run = train(f"run{number}", model=model, method=None, dev="none", steps=1).folder
        assert (
            tomllib.loads((run / "recipe.toml").read_text())["title"]
            == read_recipe("adapt")["title"]
        )
        assert "recipe: adapt; the model is a finished encoder" in (run / "train.log").read_text()
        assert recipe_of_model(model, ["title", "body"]) == "adapt-pairs"


FORGETTING: dict[str, Any] = {"learning_rate": 0.1, "warmup": 0.0, "steps": 4, "eval_every": 1}


def lost(run: Path) -> list[float]:
    """What a run has lost on general pairs, at each evaluation."""
    return [record["lost"] for record in metrics(run, "general")]


def test_a_stage_ends_where_the_encoder_has_forgotten_too_much(
    start: Encoder, train: Train, pairs: Path
) -> None:
    free, bound = (
        train(name, model=start, dev="none", most_forgotten=most, **FORGETTING)
        for name, most in (("free", 100), ("bound", 0))
    )
    assert free.evaluation.selected_step == 4
    whole = lost(free.folder)
    assert whole[0] == 0
    first = next(
        step for step, points in enumerate(whole) if points > 0
    )  # too much, where nothing may be lost
    assert lost(bound.folder) == whole[: first + 1]
    assert bound.evaluation.selected_step == first - 1
    log = (bound.folder / "train.log").read_text()
    assert f"the encoder has lost {whole[first]:.2f} on the general pairs (stsb-open:dev)" in log
    assert log.rstrip().endswith(bound.evaluation.decision)
    scored = [task.name for task in bound.evaluation.after.tasks]
    assert scored == [str(pairs), "stsb-open"]  # what was forgotten is reported


def test_a_stop_between_two_evaluations_does_not_change_which_step_is_kept(
    start: Encoder, train: Train, tmp_path: Path
) -> None:
    bound = {
        **FORGETTING,
        "learning_rate": 1e-3,
        "steps": 20,
        "eval_every": 20,
        "most_forgotten": 1.0,
    }

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["step"] == 10:
            signal.raise_signal(signal.SIGINT)

    start.save(tmp_path / "saved")
    model = str(tmp_path / "saved")
    whole = train("whole", model=model, **bound)
    assert train("stopped", model=model, watch=stop, **bound).stopped == "SIGINT"
    resumed = resume(tmp_path / "stopped")
    assert lost(resumed.folder) == lost(whole.folder)
    assert resumed.evaluation.selected_step == whole.evaluation.selected_step
