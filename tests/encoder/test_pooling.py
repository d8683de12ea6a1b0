"""Pooling of packed states against pooling of single sentences."""

import pytest
import torch
from torch import Tensor

from isotune.data.packed import pack
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError

LENGTHS = [4, 1, 7, 4, 2]
MASK = 9


def pool_sentence(mode: str, x: Tensor) -> Tensor:
    """Pools a single sentence's states [length, d], by the definition."""
    weights = torch.arange(1, len(x) + 1)[:, None]
    return {
        "cls": lambda: x[0],
        "lasttoken": lambda: x[-1],
        "mean": lambda: x.sum(0) / len(x),
        "max": lambda: x.max(0).values,
        "weightedmean": lambda: (x * weights).sum(0) / weights.sum(),
        "mask": lambda: x[len(x) // 2],
    }[mode]()


@pytest.mark.parametrize("mode", ["cls", "lasttoken", "mean", "max", "weightedmean", "mask"])
@pytest.mark.parametrize("layers", [(-1,), (1, -1), (0, 2, 3)])
def test_every_mode_and_layer_average(mode: str, layers: tuple[int, ...]) -> None:
    tokens = pack([[MASK if i == length // 2 else 1 for i in range(length)] for length in LENGTHS])
    states = {layer: torch.randn(sum(LENGTHS), 6, dtype=torch.float64) for layer in range(4)}
    pooled = tokens.restore(Pooling(mode, layers, mask_id=MASK).numbered(3)(states, tokens))
    average = sum(states[layer % 4] for layer in layers) / len(layers)
    parts = average.split(tokens.lengths.tolist())
    for i, place in enumerate(tokens.order.argsort().tolist()):
        assert len(parts[place]) == LENGTHS[i]
        torch.testing.assert_close(pooled[i], pool_sentence(mode, parts[place]))


def test_layer_weights_are_scaled_to_sum_1() -> None:
    tokens = pack([[1, 1]])
    states = {layer: torch.full((2, 1), 10.0 * layer) for layer in range(3)}
    assert Pooling("mean", (1, 2), (3.0, 1.0))(states, tokens).item() == pytest.approx(12.5)


@pytest.mark.parametrize("sentences", [[[1], [MASK]], [[1, 1], [MASK, 1, MASK]]])
def test_mask_pooling_needs_a_mask_in_each_sentence(sentences: list[list[int]]) -> None:
    tokens = pack(sentences)
    with pytest.raises(
        InputError, match="a sentence has no mask token; the prompt has to bring one"
    ):
        Pooling("mask", (0,), mask_id=MASK)({0: torch.randn(len(tokens.ids), 6)}, tokens)


def test_bfloat16_states_give_float32_vectors() -> None:
    tokens = pack([[1] * 3])
    assert Pooling(layers=(2,))({2: torch.randn(3, 4).bfloat16()}, tokens).dtype == torch.float32


@pytest.mark.parametrize(
    ("pooling", "message"),
    [
        (Pooling(layers=(4,)), "pooling layer 4: the model has 3 blocks"),
        (Pooling(layers=(-5,)), "pooling layer -5"),
        (Pooling(layers=(3, -1)), "each one once"),
        (Pooling(layers=()), "at least one layer"),
        (Pooling(layers=(1, 2), weights=(1.0,)), "1 layer weights for 2 layers"),
        *((Pooling("wk", layers), "three or more layers") for layers in ((-1,), (1, -1))),
    ],
)
def test_impossible_layers_are_refused(pooling: Pooling, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pooling.resolve(3)
