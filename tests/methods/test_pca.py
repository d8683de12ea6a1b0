"""PCA: the directions of the largest variance, no other cosine, and kept whatever the dev score."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from isotune.encoder.encoder import Encoder
from isotune.methods.pca import leading_directions
from tests.conftest import reopened
from tests.training.conftest import Train


@pytest.fixture
def vectors() -> Tensor:
    """Vectors [400, 12] with a mean far from 0 and very different variances."""
    return (torch.randn(400, 12) * torch.logspace(1, -1, 12)) @ torch.randn(12, 12) + 20


@pytest.mark.parametrize("kept", [12, 5, 1])
def test_the_directions_are_those_of_scikit_learn(vectors: Tensor, kept: int) -> None:
    head = leading_directions(vectors, kept)
    theirs = PCA(kept).fit(vectors.double().numpy()).components_  # [kept, 12]
    # A direction has no sign.
    cosines = np.abs((head.linear.weight.detach().double().numpy() * theirs).sum(1))
    np.testing.assert_allclose(cosines, 1, atol=1e-5)
    assert not head.linear.bias.any()


def test_all_directions_keep_all_cosines(vectors: Tensor) -> None:
    turned = leading_directions(vectors).double()(vectors.double())
    x = vectors.double()
    torch.testing.assert_close(turned @ turned.T, x @ x.T, rtol=1e-5, atol=1e-3)
    variances = turned.var(0)
    assert (variances.diff() < 0).all()


def test_a_run_keeps_the_map_and_sentence_transformers_opens_it(
    encoder: Encoder, train: Train, sentences: list[str], tmp_path: Path
) -> None:
    options = {"method": "pca", "dimensions": 3} | dict.fromkeys(("steps", "eval_every"))
    result = train(model=encoder, learning_rate=None, **options)
    vectors = reopened(result.encoder, tmp_path / "again", sentences, atol=1e-4).encode(sentences)
    assert vectors.shape == (60, 3)
    variances = vectors.var(0)
    assert (np.diff(variances) < 0).all()
    # Its dev score is lower than that of the start.
    assert result.evaluation.selected_step == 1
