"""The cut to the first features: as sentence-transformers makes it, saved, and refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense, Normalize
from isotune.errors import InputError
from isotune.methods.method import Additions
from tests.conftest import reopened

SETTINGS = "config_sentence_transformers.json"


@pytest.mark.parametrize("scales", [False, True])
@pytest.mark.parametrize("dimensions", [1, 5, 32])
def test_vectors_are_those_of_truncate_dim(
    encoder: Encoder, sentences: list[str], dimensions: int, scales: bool, tmp_path: Path
) -> None:
    if scales:
        encoder.heads.append(Normalize())
    encoder.save(tmp_path / "whole")
    cut = Encoder.load(tmp_path / "whole", dimensions=dimensions)
    theirs = SentenceTransformer(str(tmp_path / "whole"), device="cpu", truncate_dim=dimensions)
    for normalize in (False, True):
        expected = theirs.encode(sentences, normalize_embeddings=normalize)
        vectors = cut.encode(sentences, normalize=normalize)
        assert vectors.shape == (60, dimensions) == (60, cut.dimension)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_a_folder_keeps_the_cut(encoder: Encoder, sentences: list[str], tmp_path: Path) -> None:
    cut = encoder.cut_to(7)
    again = reopened(cut, tmp_path / "cut", sentences)
    assert again.dimension == 7
    assert again.fingerprint() == cut.fingerprint() != encoder.fingerprint()
    assert again.changed(vectors=True) == ""
    settings = json.loads((tmp_path / "cut" / SETTINGS).read_text())
    assert settings["truncate_dim"] == 7
    # Another number takes the place of the folder's.
    assert Encoder.load(tmp_path / "cut", dimensions=20).dimension == 20
    whole = Encoder.load(tmp_path / "cut", dimensions=32)
    assert whole.fingerprint() == encoder.fingerprint()
    whole.save(tmp_path / "whole")
    assert "truncate_dim" not in (tmp_path / "whole" / SETTINGS).read_text()


def test_a_folder_may_name_more_features_than_there_are(encoder: Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "saved")
    path = tmp_path / "saved" / SETTINGS
    path.write_text(json.dumps({"truncate_dim": 99}))
    (tmp_path / "saved" / "SHA256SUMS").unlink()
    assert Encoder.load(tmp_path / "saved").dimension == 32


@pytest.mark.parametrize("dimensions", [0, 33, 8.0, "8", True])
def test_features_that_there_are_not_are_refused(tiny_model: Path, dimensions: Any) -> None:
    message = f"dimensions {dimensions!r}: .* have 32 features; give a whole number from 1 to 32"
    with pytest.raises(InputError, match=message):
        Encoder.load(tiny_model, dimensions=dimensions)


def test_a_cut_encoder_takes_no_further_layer(encoder: Encoder) -> None:
    additions = Additions(heads=(Dense(32, 4),))
    with pytest.raises(InputError, match=r"cut to 8 features .* adds a layer behind them"):
        additions.attach(encoder.cut_to(8))


def test_only_the_kept_features_are_trained(encoder: Encoder) -> None:
    encoder.heads.append(Dense(32, 32, activation="Identity"))
    cut = encoder.cut_to(3)
    (dense, _) = cut.heads
    cut.heads(torch.ones(2, 32)).sum().backward()
    gradient = dense.linear.weight.grad
    assert gradient[:3].any(1).all()
    assert not gradient[3:].any()
