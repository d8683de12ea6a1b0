"""Dropout with cheap random masks: its rate, independence, gradient, and seed."""

from math import sqrt
from pathlib import Path

import pytest
import torch

from isotune.data.draws import ragged_random_bits, random_bits
from isotune.data.packed import pack
from isotune.encoder.encoder import Encoder
from isotune.kernels.cpu.dropout import (
    DRAWS,
    Draws,
    FastDropout,
    dropout,
    dropout_factors,
    with_value,
)
from tests.conftest import seeded

N = 400_000


def factors_of(count: int, rate: float, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Factors of rows of 1,000 elements, each of which has a seed."""
    bits = random_bits(torch.arange(-(-count // 1000)) + seed, 250)
    return dropout_factors(bits, rate, dtype).flatten()[:count]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_elements_are_0_at_the_rate_and_the_others_are_scaled(
    rate: float, dtype: torch.dtype
) -> None:
    assert factors_of(N, 1 - 1e-9, dtype).isfinite().all()
    factors = factors_of(N, rate, dtype)
    share = (factors == 0).double().mean().item()
    assert abs(share - rate) <= 5 * sqrt(rate * (1 - rate) / N)
    kept = factors[factors != 0].unique()
    torch.testing.assert_close(kept, torch.tensor([1 / (1 - round(rate * 2**16) / 2**16)]))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_changes_no_mean(rate: float, dtype: torch.dtype) -> None:
    """Each kept element is rounded once, so that over many numbers the errors even out.

    The same holds for the gradient.
    """
    x = torch.rand(1, N).add_(1).to(dtype).requires_grad_()
    y = dropout(x, rate, torch.zeros(1, dtype=torch.int64))
    weight = torch.rand(1, N).add_(1).to(dtype)
    (gradient,) = torch.autograd.grad(y, x, weight)
    assert y.dtype == gradient.dtype == dtype
    kept = y != 0
    for result, given in ((y, x), (gradient, weight)):
        ratio = result[kept].double().mean() / given[kept].double().mean()
        assert abs(ratio.item() * (1 - rate) - 1) < 6e-4


def test_elements_are_dropped_independently() -> None:
    dropped = (
        (factors_of(N, 0.3, torch.float32) == 0).double().view(-1, 4)
    )  # the four elements of a draw
    both = (dropped.T @ dropped) / len(dropped)  # [4, 4]
    off = both[~torch.eye(4, dtype=torch.bool)]
    assert (off - 0.09).abs().max() < 5 * sqrt(0.09 * 0.91 / len(dropped))
    for width in (4, 1000):  # of draws and of rows that follow each other
        rows = dropped.view(-1, width)
        assert abs((rows[1:] * rows[:-1]).mean().item() - 0.09) < 5 * sqrt(0.09 * 0.91 / N)
    again, other = (factors_of(N, 0.3, torch.float32, seed) == 0 for seed in (0, 2))
    assert torch.equal(again.double().view(-1, 4), dropped)
    assert not torch.equal(other, again)


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (2, 3, 7)])
def test_any_shape_works_and_has_a_gradient(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape).add_(1).requires_grad_()
    y = dropout(x, 0.5, torch.zeros(shape[:-1], dtype=torch.int64))
    y.sum().backward()
    assert y.shape == x.shape
    assert ((x.grad == 0) | (x.grad == 2)).all()
    assert torch.equal(y, x * x.grad)


def test_every_layer_draws_its_own_numbers_and_every_sentence_its_own() -> None:
    layers, x = [FastDropout(0.5) for _ in range(2)], torch.ones(1, 6, 64)
    with with_value(DRAWS, Draws(torch.arange(2), torch.arange(6)[None])):
        first, second = (layer(x) for layer in layers)
    assert not torch.equal(first, second)
    assert len(first[0].unique(dim=0)) == 6


def test_a_sentence_loses_the_same_in_any_batch(tiny_model: Path, sentences: list[str]) -> None:
    encoder = Encoder.load(tiny_model, device="cpu").train()
    tokens = seeded(pack(encoder.tokenize(sentences[:12])))
    with torch.no_grad(), encoder.backbone.dropout(0.3):
        whole = encoder(tokens)
        for part in tokens.cut(4):
            torch.testing.assert_close(
                encoder(part), whole[part.order.sort().values], rtol=1e-5, atol=1e-6
            )
        assert not torch.allclose(encoder(seeded(tokens, seed=1)), whole, rtol=1e-2)


def test_rows_of_different_lengths_draw_the_numbers_that_each_draws_alone() -> None:
    seeds, counts = torch.tensor([3, -(2**60), 2**62]), torch.tensor([12, 1, 300])
    together = ragged_random_bits(seeds, counts)
    alone = [random_bits(seed, count) for seed, count in zip(seeds, counts.tolist(), strict=True)]
    assert torch.equal(together, torch.cat(alone))


def test_every_dropout_layer_of_a_model_is_replaced(tiny_model: Path) -> None:
    encoder = Encoder.load(tiny_model, device="cpu")
    layers = [module for module in encoder.modules() if isinstance(module, torch.nn.Dropout)]
    assert (
        len(layers) == 1 + 3 * 3
    )  # of the embeddings; two and the attention's, which isn't called, of each block
    assert {type(layer) for layer in layers} == {FastDropout}
    x = torch.ones(1, 1, 100)
    with with_value(
        DRAWS, Draws(torch.zeros(1, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int64))
    ):
        assert all(torch.equal(layer(x), x) for layer in layers)
        encoder.train()
        assert all((layer(x) == 0).any() for layer in layers)
        with encoder.backbone.dropout(0.0):
            assert all(torch.equal(layer(x), x) for layer in layers)
