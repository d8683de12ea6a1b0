"""Whitening as a method: one pass, no steps, and an encoder whose covariance is the identity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isotune
from isotune.encoder.heads import Dense
from isotune.errors import InputError


@pytest.fixture
def run(tiny_model: Path, text: Path, pairs: Path, tmp_path: Path) -> Callable[..., isotune.training.Result]:
    def train(**options: Any) -> isotune.training.Result:
        given = {"model": str(tiny_model), "method": "whitening", "dev": "none", "tasks": [str(pairs)], "quiet": True}
        return isotune.train(text, out=tmp_path / "run", batch_size=8, **{**given, **options})

    return train


def test_the_vectors_after_the_heads_that_are_there_have_covariance_one(
    run: Callable[..., Any], tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    encoder = isotune.Encoder.load(tiny_model)
    encoder.heads.append(Dense(32, 12))
    encoder.save(tmp_path / "start")
    result = run(model=str(tmp_path / "start"), dimensions=6)
    assert result.evaluation.selected_step == 1
    vectors = isotune.Encoder.load(result.encoder).encode(sentences)
    assert vectors.shape == (60, 6)
    np.testing.assert_allclose(vectors.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(vectors.T @ vectors / 60, np.eye(6), atol=1e-3)
    assert result.report.exists()


def test_more_features_than_there_are_are_refused(run: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="the encoder's vectors have 32; keep that many or fewer"):
        run(dimensions=33)
