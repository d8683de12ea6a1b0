"""PCA: the leading directions, no other cosine, and kept whatever the dev score."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import TruncatedSVD
from torch import Tensor

from isotune.encoder.encoder import Encoder
from isotune.methods.pca import leading_directions
from isotune.report.verdict import gain_sentence, gain_title, open_questions
from tests.conftest import reopened
from tests.training.conftest import Train


@pytest.fixture
def vectors() -> Tensor:
    """Vectors [400, 12] with a mean that is not 0 and very different variances."""
    return (torch.randn(400, 12) * torch.logspace(1, -1, 12)) @ torch.randn(12, 12) + 2


@pytest.mark.parametrize("kept", [11, 5, 1])
def test_the_directions_are_those_of_scikit_learn(vectors: Tensor, kept: int) -> None:
    head = leading_directions(vectors, kept)
    theirs = TruncatedSVD(kept, algorithm="arpack", random_state=0)
    theirs.fit(vectors.double().numpy())
    # A direction has no sign.
    cosines = np.abs((head.linear.weight.detach().double().numpy() * theirs.components_).sum(1))
    np.testing.assert_allclose(cosines, 1, atol=1e-5)
    assert not head.linear.bias.any()


def test_all_directions_keep_all_cosines(vectors: Tensor) -> None:
    turned = leading_directions(vectors).double()(vectors.double())
    x = vectors.double()
    torch.testing.assert_close(turned @ turned.T, x @ x.T, rtol=1e-5, atol=1e-3)
    squares = turned.square().mean(0)
    assert (squares.diff() < 0).all()


def test_a_run_keeps_the_map_and_sentence_transformers_opens_it(
    encoder: Encoder, train: Train, sentences: list[str], tmp_path: Path
) -> None:
    options = {"method": "pca", "dimensions": 3} | dict.fromkeys(("steps", "eval_every"))
    result = train(model=encoder, learning_rate=None, **options)
    vectors = reopened(result.encoder, tmp_path / "again", sentences, atol=1e-4).encode(sentences)
    assert vectors.shape == (60, 3)
    squares = np.square(vectors).mean(0)
    assert (np.diff(squares) < 0).all()
    # Its dev score is lower than that of the start.
    assert result.evaluation.selected_step == 1
    (gain,) = [gain for gain in result.evaluation.gains if gain.kind == "dev"]
    told = [gain.words, gain_sentence(gain), gain_title(gain), result.report.read_text()]
    assert not any("chose the step" in text for text in told)
    # Pairs that choose no step are not asked for as dev data.
    general = result.evaluation.model_copy(update={"dev_is_general": True, "own_tasks": ()})
    (advice,) = open_questions(general, has_examples=False)
    assert advice.endswith("name them to isotune evaluate --tasks.")
    chosen = general.dev.model_copy(update={"chose_step": True})
    chosen_by_dev = general.model_copy(update={"dev": chosen})
    (advice,) = open_questions(chosen_by_dev, has_examples=False)
    assert advice.endswith("train with --dev.")
