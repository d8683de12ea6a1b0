"""CLSR: its loss on the paper's networks, and that nothing below them changes."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.evaluation.geometry import mean_cosine
from isotune.methods.clsr import CLSR
from isotune.methods.method import Batch
from isotune.methods.options import CLSROptions
from tests.conftest import attached, encode_views, reopened, trained
from tests.reference import clsr as reference
from tests.reference import losses
from tests.training.conftest import Train, same, stop_and_resume


def test_the_loss_is_the_papers_on_both_networks(encoder: Encoder) -> None:
    method = attached(CLSR(CLSROptions(temperature=0.2, width=11), encoder), encoder)
    columns = torch.randn(2, 5, 32).unbind()
    batch = Batch(vectors=columns)
    encoded = encode_views(encoder, method.views(batch))
    expected = [
        torch.stack([reference.encoder(x.double(), encoder.heads.state_dict()) for x in c])
        for c in columns
    ]
    for got, want in zip(encoded, expected, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)
        assert (got >= 0).all()
    projected = [
        torch.stack([reference.linear(x, method.projection.state_dict(), "") for x in vectors])
        for vectors in expected
    ]
    want = losses.nt_xent(projected[0], projected[1], 0.2)
    torch.testing.assert_close(
        method.loss(encoded, batch)["nt_xent"].double(), want, rtol=1e-5, atol=0
    )


def test_only_its_own_layers_are_trained(encoder: Encoder) -> None:
    encoder.heads.append(Dense(32, 24))
    method = attached(CLSR(CLSROptions(width=16), encoder), encoder)
    assert encoder.dimension == 16
    _, *new = encoder.heads
    assert [head.dimensions for head in new] == [(24, 16), (16, 16)]
    assert {id(p) for p in trained(method, encoder)} == {
        id(p) for head in new for p in head.parameters()
    }
    assert {name for name, _ in method.named_parameters()} == {
        "projection.weight",
        "projection.bias",
    }


def test_vectors_of_length_1_do_not_start_as_one_point(encoder: Encoder) -> None:
    """As torch starts a layer, the bias is as large as the product: the mean cosine is 0.71."""
    attached(CLSR(CLSROptions(), encoder), encoder)
    with torch.no_grad():
        y = encoder.heads(torch.nn.functional.normalize(torch.randn(200, 32), dim=-1))
    assert mean_cosine(y) < 0.6


@pytest.fixture
def options(pairs: Path) -> dict[str, Any]:
    """Six steps on the pairs that score 2 and more, as the recipe takes them."""
    sgd: dict[str, Any] = {
        "as_released": {"optimizer": "sgd"},
        "learning_rate": 0.1,
        "max_gradient_norm": math.inf,
    }
    return {
        "method": "clsr",
        "sources": pairs,
        "min_score": 2.0,
        "dev": "none",
        "width": 16,
        "steps": 6,
        **sgd,
    }


def test_a_run_leaves_the_encoder_below_as_it_was(
    train: Train, options: dict[str, Any], tiny_model: Path, sentences: list[str], tmp_path: Path
) -> None:
    start = Encoder.load(tiny_model)
    kept = train(**options).encoder
    for name, weight in start.backbone.state_dict().items():
        assert torch.equal(kept.backbone.state_dict()[name], weight), name
    assert [head.dimensions for head in kept.heads] == [(32, 16), (16, 16)]
    biases = [value for name, value in kept.heads.state_dict().items() if "bias" in name]
    assert all(bias.abs().max() > 0 for bias in biases)  # they started at 0
    reopened(kept, tmp_path / "again", sentences)


def test_a_stopped_run_goes_on_bit_for_bit(train: Train, options: dict[str, Any]) -> None:
    whole = load_file(train("whole", **options).folder / "last.safetensors")
    assert same(whole, load_file(stop_and_resume(train, 3, **options).folder / "last.safetensors"))
    assert any("momentum" in key for key in whole)
