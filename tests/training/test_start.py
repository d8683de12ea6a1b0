"""A run that starts from an encoder in memory: isotune's, or sentence-transformers'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.errors import InputError
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
