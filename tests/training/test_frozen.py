"""What isn't trained costs nothing backward: the matrix products of a pass are counted."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from isotune.data.packed import Packed, pack
from isotune.encoder.encoder import Encoder
from isotune.kernels.cpu import attention as attention_kernel
from isotune.methods.method import Batch, View
from isotune.methods.options import SelfGuidedOptions
from isotune.methods.self_guided import SelfGuided
from tests.conftest import encode_views

BLOCKS, D, INNER = 3, 32, 64  # of the tiny model
LINEARS = 2 * (4 * D * D + 2 * D * INNER)  # of one block, for one token


@pytest.fixture(autouse=True)
def _counted_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_kernel, "ONE_THREAD", 0)  # numpy's products are not counted
    monkeypatch.setattr(
        attention_kernel, "MASKED", 0
    )  # one masked product of a whole batch multiplies more


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(tiny_model, device="cpu").train()


@pytest.fixture
def tokens() -> Packed:
    return pack([[2, *range(5, 5 + length), 3] for length in (1, 4, 4, 9)])


def attention(tokens: Packed) -> int:
    """Of one block, forward: all queries with all keys, and all weights with all values."""
    return 4 * D * sum(length**2 * sentences for length, sentences in tokens.groups)


def counted(encoder: Encoder, views: Sequence[View]) -> tuple[int, int]:
    """Operations of products forward and backward."""
    with FlopCounterMode(display=False) as forward:
        loss = torch.stack([vectors.sum() for vectors in encode_views(encoder, views)]).sum()
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()


def test_a_step_costs_twice_the_forward_pass_backward_above_the_lowest_trained_block(
    encoder: Encoder, tokens: Packed
) -> None:
    forward, backward = counted(encoder, [View(tokens)])
    assert forward == BLOCKS * (len(tokens.ids) * LINEARS + attention(tokens))
    assert backward == 2 * forward
    to_inputs = (
        len(tokens.ids) * 3 * 2 * D * D
    )  # the gradients of what query, key and value are made of
    for number, frozen in enumerate(("embeddings", "encoder.layer.0", "encoder.layer.1")):
        encoder.backbone.model.get_submodule(frozen).requires_grad_(False)
        _, backward = counted(encoder, [View(tokens)])
        assert backward == 2 * forward * (BLOCKS - number) / BLOCKS - to_inputs


def test_self_guidance_goes_back_through_the_tuned_blocks_only(
    encoder: Encoder, tokens: Packed
) -> None:
    method = SelfGuided(SelfGuidedOptions(projection=False), encoder)
    encoder.requires_grad_(False)
    for parameter in method.trained(encoder):
        parameter.requires_grad_(True)
    forward, backward = counted(encoder, method.views(Batch((tokens,))))
    assert (
        backward == forward - len(tokens.ids) * 3 * 2 * D * D
    )  # the forward pass is made twice, half of it frozen
