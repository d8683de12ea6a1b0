"""Soft targets in a run: what they change, and that a resumed run has the same start."""

import numpy as np
import pytest

from tests.training.conftest import Train, assert_same_end, metrics, stop_and_resume

OPTIONS = {"dev": "none", "batch_size": 30, "steps": 20}


@pytest.mark.parametrize("method", ["consert", "simcse"])
def test_soft_targets_move_the_encoder_less(train: Train, method: str) -> None:
    changes = {}
    for name, options in {"hard": {}, "soft": {"soft_targets": 1.0}}.items():
        run = train(name, method=method, **OPTIONS, **options)
        spaces = metrics(run.folder, "space")
        changes[name] = np.abs(spaces[-1]["mean_cosine"] - spaces[0]["mean_cosine"])
    assert changes["soft"] < changes["hard"]


@pytest.mark.parametrize("first", [[], [{"method": "simcse", "steps": 5}]])
def test_a_resumed_run_has_the_same_soft_targets(train: Train, first: list[dict]) -> None:
    """Also in a second stage, whose start is no folder."""
    stages = [*first, {"method": "consert", "soft_targets": 0.1, "model_dropout": 0.0}]
    whole = train("whole", stages=stages, **OPTIONS)
    resumed = stop_and_resume(train, 12, stages=stages, **OPTIONS)
    assert "soft_info_nce" in metrics(whole.folder, "train")[-1]["terms"]
    assert_same_end(whole.folder, resumed.folder)


def test_a_text_and_its_copy_are_not_pushed_apart(train: Train, sentences: list[str]) -> None:
    """The warning of repeated texts is not for soft targets."""
    rows = [*sentences[:20], *sentences[:20]]
    for soft_targets in (None, 0.05):
        run = train(
            f"copies-{soft_targets}",
            sources=None,
            rows=rows,
            method="consert",
            soft_targets=soft_targets,
            **OPTIONS,
        )
        warnings = [record["message"] for record in metrics(run.folder, "warning")]
        repeats = any("training pushes a text and its copy apart" in text for text in warnings)
        assert repeats == (soft_targets is None)
