"""NaN and overflow end in one line that says what to do, in every method and in both precisions."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from isotune.encoder.encoder import Encoder
from isotune.engine.step import Stepper, TrainingFailed
from isotune.engine.workers import Workers
from isotune.errors import InputError
from isotune.methods.method import Batch
from isotune.recipes import TrainingOptions
from tests.engine.steps import STEPS, make
from tests.training.conftest import Train

pytestmark = pytest.mark.usefixtures("small_projection")


def stepper(
    name: str, model: Path, sentences: list[str], **options: object
) -> tuple[Stepper, list[Tensor]]:
    """What makes the updates of a method on one batch, and the weights that it trains."""
    encoder, objectives, batch = make(name, model, sentences)
    encoder.float()
    objectives.float()
    loader = SimpleNamespace(batch=lambda step: in_float(batch), steps_per_epoch=10)
    training = TrainingOptions.model_validate({"max_gradient_norm": 1e30, **options})
    steps = Stepper(0, 0, Workers(), model, encoder, objectives, loader, training)
    return steps, steps.optimizer.parameters


def in_float(batch: Batch) -> Batch:
    feeds = {name: in_float(other) for name, other in batch.feeds.items()}
    targets = (
        batch.targets.float()
        if batch.targets is not None and batch.targets.is_floating_point()
        else batch.targets
    )
    vectors = tuple(vectors.float() for vectors in batch.vectors)
    return replace(batch, targets=targets, feeds=feeds, vectors=vectors)


@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STEPS)
def test_every_method_ends_in_one_line(
    name: str, precision: str, tiny_model: Path, sentences: list[str]
) -> None:
    for value in (math.nan, math.inf):
        steps, weights = stepper(name, tiny_model, sentences, precision=precision)
        for weight in weights:
            weight.data *= value
        with pytest.raises(
            TrainingFailed, match="training is stopped: use a lower learning_rate than"
        ):
            steps.update(0).check(steps.options)

    steps, weights = stepper(
        name, tiny_model, sentences, precision=precision, learning_rate=1e30, warmup=0
    )
    failed = False
    for step in range(10):
        before = [weight.clone() for weight in weights]
        try:
            steps.update(step).check(steps.options)
        except TrainingFailed as failure:
            failed = "use a lower learning_rate than 1e+30" in str(failure)
            break
    assert failed
    assert all(
        torch.equal(a, b) for a, b in zip(weights, before, strict=True)
    )  # a failed step changes no weight
    assert all(weight.isfinite().all() for weight in weights)


@pytest.mark.parametrize("method", ["whitening", "flow"])
def test_a_model_whose_vectors_overflow_ends_in_one_line(
    method: str, train: Train, tiny_model: Path, tmp_path: Path
) -> None:
    encoder = Encoder.load(tiny_model)
    *_, last = (
        module for module in encoder.backbone.modules() if isinstance(module, torch.nn.LayerNorm)
    )
    last.weight.data *= 3e38
    encoder.save(tmp_path / "large")
    steps = (
        {"steps": None, "batch_size": None, "learning_rate": None} if method == "whitening" else {}
    )
    for dev in ({"dev": "none"}, {}):
        with pytest.raises(InputError, match="NaN or infinit"):
            train(f"run-{len(dev)}", method=method, model=str(tmp_path / "large"), **dev, **steps)
