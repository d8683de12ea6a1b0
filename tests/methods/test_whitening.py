"""Whitening: the map and the covariance it leads to; as a method, one pass without steps."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.methods.whitening import whitening
from tests.conftest import reopened
from tests.training.conftest import Train


@pytest.fixture
def vectors() -> Tensor:
    """Vectors [400, 12] with a mean far from 0 and very different variances."""
    return (torch.randn(400, 12) * torch.logspace(1, -2, 12)) @ torch.randn(12, 12) + 20


@pytest.mark.parametrize("kept", [None, 12, 5, 1])
def test_mean_and_covariance(vectors: Tensor, kept: int | None) -> None:
    head = whitening(vectors, kept).double()
    z = head(vectors.double())
    assert z.shape[1] == head.dimensions[1] == (kept or 12)
    torch.testing.assert_close(z.mean(0), torch.zeros_like(z[0]), atol=1e-3, rtol=0)
    torch.testing.assert_close(
        z.T @ z / len(z), torch.eye(z.shape[1], dtype=z.dtype), atol=1e-3, rtol=0
    )


def test_the_kept_features_have_the_largest_variance(vectors: Tensor) -> None:
    torch.testing.assert_close(whitening(vectors, 5)(vectors), whitening(vectors)(vectors)[:, :5])
    x = vectors.double()
    centred = x - x.mean(0)
    _, _, vt = torch.linalg.svd(centred, full_matrices=False)
    rest = (
        centred - centred @ vt[:3].T @ vt[:3]
    )  # without the three directions of the largest variance
    assert whitening(vectors, 3).double()(x.mean(0) + rest).abs().max() < 1e-3


def test_a_direction_without_variance_becomes_0(vectors: Tensor) -> None:
    flat = torch.nn.functional.layer_norm(
        vectors, (12,)
    )  # all of them in one plane, but for rounding
    z = whitening(flat)(flat).double()
    expected = torch.eye(12, dtype=z.dtype)
    expected[11, 11] = 0
    torch.testing.assert_close(z.T @ z / len(z), expected, atol=1e-3, rtol=0)


def test_few_vectors_are_whitened_where_they_vary(vectors: Tensor) -> None:
    z = whitening(vectors[:9]).double()(vectors[:9].double())
    torch.testing.assert_close(z[:, 8:], torch.zeros(9, 4, dtype=z.dtype), atol=1e-3, rtol=0)
    torch.testing.assert_close(
        z[:, :8].T @ z[:, :8] / 9, torch.eye(8, dtype=z.dtype), atol=1e-2, rtol=0
    )


def test_the_vectors_after_the_heads_that_are_there_have_covariance_one(
    encoder: Encoder, train: Train, sentences: list[str], tmp_path: Path
) -> None:
    encoder.heads.append(Dense(32, 12))
    options = {"method": "whitening", "dimensions": 6, "dev": "none"} | dict.fromkeys(
        ("steps", "eval_every")
    )
    result = train(model=encoder, learning_rate=None, **options)
    assert result.evaluation.selected_step == 1
    white = result.encoder
    vectors = reopened(white, tmp_path / "again", sentences, atol=1e-4).encode(sentences)
    assert vectors.shape == (60, 6)
    np.testing.assert_allclose(vectors.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(vectors.T @ vectors / 60, np.eye(6), atol=1e-3)
    assert result.report.exists()
