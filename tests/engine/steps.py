"""Steps of every method on the tiny model, to compare ways of making them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from isotune.encoder.encoder import Encoder
from isotune.engine.forward import StepEncoding
from isotune.engine.objectives import Objectives
from isotune.engine.workers import Workers
from isotune.methods import METHODS, OPTIONS
from isotune.methods.method import Batch
from isotune.methods.mlm import MLM
from isotune.methods.options import (
    BERTCFOptions,
    ConSERTJointOptions,
    FlowOptions,
    MethodOptions,
    MLMOptions,
    SelfGuidedOptions,
)
from tests.methods.test_methods import make_batch

STEPS: dict[str, tuple[str, MethodOptions]] = {
    name: (name, options()) for name, options in OPTIONS.items()
}
for name in ("whitening", "pca", "sif", "linear-map", "classifier"):  # nothing is minimised
    del STEPS[name]
STEPS |= {
    "adversarial": ("consert-joint", ConSERTJointOptions(augmentations=("none", "adversarial"))),
    "adversarial and another": (
        "consert-joint",
        ConSERTJointOptions(augmentations=("adversarial", "shuffle")),
    ),
    "flow, not cached": ("flow", FlowOptions(cached=False)),
    "bert-cf, joint": ("bert-cf", BERTCFOptions(train_encoder=True)),
    "self-guided, one layer": (
        "self-guided",
        SelfGuidedOptions(objective="base", frozen_dropout=True),
    ),
    "simcse and mlm": ("simcse", OPTIONS["simcse"]()),
}


def make(
    name: str,
    model: Path,
    sentences: list[str],
    device: str = "cpu",
    dtype: torch.dtype = torch.float64,
) -> tuple[Encoder, Objectives, Batch]:
    """A method, about to train, and nine rows of each of its kinds; twice the same."""
    torch.manual_seed(0)
    encoder = Encoder.load(model, device=device)
    unused = torch.nn.Linear(3, 3, device=device)  # as a published model's pooler
    encoder.backbone.model.add_module("unused", unused)
    for parameter in encoder.parameters():  # weights large enough for all of them to matter
        parameter.data += 0.1 * torch.randn_like(parameter)
    kind, options = STEPS[name]
    method = METHODS[kind](options, encoder)
    beside = (
        [MLM(MLMOptions(masking_rate=0.3), encoder, weight=0.1)] if name.endswith("and mlm") else []
    )
    objectives = Objectives(method, beside)
    objectives.attach(encoder)
    encoder.train().requires_grad_(False)
    for parameter in objectives.trained(encoder):
        parameter.requires_grad_(True)
    batch = make_batch(method, encoder, sentences)
    feeds = {name: _typed(of_feed, dtype) for name, of_feed in batch.feeds.items()}
    batch = Batch.of_feeds(feeds, batch.generator) if feeds else _typed(batch, dtype)
    return encoder.to(dtype), objectives.to(device, dtype).train(), batch


def gradient(
    encoder: Encoder,
    objectives: Objectives,
    batch: Batch,
    workers: Workers | None = None,
    chunk_size: int | None = None,
    half: bool = False,
) -> Tensor:
    """The loss of a step, and its gradient at all weights, in one row."""
    workers = workers or Workers()
    torch.manual_seed(1)
    batch.generator.manual_seed(2)
    encoding = StepEncoding(encoder, workers, 3, chunk_size)
    weights = [
        weight
        for module in (encoder, objectives)
        for weight in module.parameters()
        if weight.requires_grad
    ]
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        views, terms_of, adversary = objectives.views_and_losses(batch, encoder.device)
        terms = terms_of(encoding.encode(views, adversary))
    loss = torch.stack([*terms.values(), *objectives.penalties(encoder).values()]).sum()
    loss.backward()
    workers.drop_gradients_off_rank_zero(weights)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        encoding.backward()
    workers.all_reduce_gradients(weights)
    result = in_one_row(loss, weights)
    for weight in weights:
        weight.grad = None
    return result


def in_one_row(loss: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """A loss and the gradients of weights; NaN at a weight that has none."""
    gradients = [
        torch.full_like(weight, torch.nan) if weight.grad is None else weight.grad
        for weight in weights
    ]
    return torch.cat([loss.detach()[None], *(x.flatten() for x in gradients)])


def assert_same(got: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    """Compares two results of `gradient`."""
    assert torch.equal(
        got.isnan(), expected.isnan()
    )  # AdamW decays a weight with a gradient of 0, and else not
    got, expected = got.nan_to_num(), expected.nan_to_num()
    assert expected[1:].norm() > 0
    torch.testing.assert_close(got[0], expected[0], rtol=tolerance, atol=0)
    assert (got - expected).norm() <= tolerance * expected.norm()


def _typed(batch: Batch, dtype: torch.dtype) -> Batch:
    targets = batch.targets
    if targets is not None and targets.is_floating_point():
        targets = targets.to(dtype)
    return replace(
        batch, targets=targets, vectors=tuple(vectors.cpu().to(dtype) for vectors in batch.vectors)
    )
