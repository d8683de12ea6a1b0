"""Augmentations: exact counts, what is left alone, randomness from the sentences' seeds alone."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotune.data.packed import Packed, pack
from isotune.views.augmentation import (
    Augmentation,
    EmbeddingDropout,
    FeatureCutoff,
    Shuffle,
    TokenCutoff,
)
from tests.conftest import seeded

ALL: list[Augmentation] = [
    Augmentation(),
    Shuffle(),
    TokenCutoff(0.3),
    FeatureCutoff(0.3),
    EmbeddingDropout(0.3),
]
lengths = st.lists(st.integers(1, 12), min_size=1, max_size=8)
rates = st.floats(0, 0.99)


def packed(lengths: list[int], seed: int = 0) -> Packed:
    return seeded(pack([[1] * length for length in lengths]), seed)


def cut(augmentation: Augmentation, tokens: Packed, d: int = 10) -> list[torch.Tensor]:
    """Where each packed sentence was set to 0, [length, d] bool; and nothing else was changed."""
    x = 1 + torch.rand(len(tokens.ids), d)
    y = augmentation.embeddings(x, tokens)
    assert torch.equal(y[y != 0], x[y != 0])
    return list((y == 0).split(tokens.lengths.tolist()))


@given(lengths, rates, st.sampled_from([TokenCutoff, FeatureCutoff, EmbeddingDropout]))
@settings(deadline=None)
def test_exactly_floor_of_the_tokens_features_or_elements_is_cut(
    lengths: list[int], rate: float, kind: Any
) -> None:
    for zero in cut(kind(rate), packed(lengths)):
        parts = {TokenCutoff: zero, FeatureCutoff: zero.T, EmbeddingDropout: zero.reshape(-1, 1)}[
            kind
        ]
        assert torch.equal(parts.all(1), parts.any(1))
        assert int(parts.all(1).sum()) == math.floor(rate * len(parts))


@given(lengths)
@settings(deadline=None)
def test_shuffle_permutes_the_positions_of_each_sentence(lengths: list[int]) -> None:
    tokens = packed(lengths)
    positions = Shuffle().positions(tokens)
    for part in positions.split(tokens.lengths.tolist()):
        assert part.sort().values.tolist() == list(range(len(part)))


def test_every_permutation_and_every_token_is_equally_likely() -> None:
    tokens = packed([3] * 6000)
    codes = Shuffle().positions(tokens).view(-1, 3) @ torch.tensor([9, 3, 1])
    counts = codes.unique(return_counts=True)[1]
    assert len(counts) == 6
    assert (counts - 1000).abs().max() < 130  # about 4.5 standard deviations
    first = TokenCutoff(0.34).embeddings(torch.ones(18000, 1), tokens).view(-1, 3)
    assert ((first == 0).sum(0) - 2000).abs().max() < 170


@pytest.mark.parametrize("augmentation", ALL, ids=repr)
def test_the_same_seed_gives_the_same_view_and_another_one_another(
    augmentation: Augmentation,
) -> None:
    x = torch.rand(21, 16)

    def view(seed: int) -> torch.Tensor:
        tokens = packed([5, 9, 7], seed)
        return torch.cat(
            [augmentation.positions(tokens)[:, None], augmentation.embeddings(x, tokens)], 1
        )

    torch.manual_seed(7)  # the global generator plays no part
    first = view(1)
    torch.manual_seed(8)
    assert torch.equal(view(1), first)
    assert torch.equal(view(2), first) == (augmentation == Augmentation())


@pytest.mark.parametrize("augmentation", ALL, ids=repr)
def test_augmentations_keep_type_and_gradient(augmentation: Augmentation) -> None:
    tokens = packed([4, 6])
    x = torch.rand(10, 8, dtype=torch.bfloat16, requires_grad=True)
    y = augmentation.embeddings(x, tokens)
    y.sum().backward()
    assert y.dtype == torch.bfloat16
    assert torch.equal(x.grad, (y != 0).to(torch.bfloat16))


@pytest.mark.parametrize("augmentation", ALL, ids=repr)
def test_a_sentence_is_changed_alike_wherever_it_stands(augmentation: Augmentation) -> None:
    lengths = [5, 9, 7, 5, 2, 9]
    whole, x = packed(lengths), torch.rand(37, 16)
    positions, changed = augmentation.positions(whole), augmentation.embeddings(x, whole)
    for part in [
        *whole.cut(3),
        whole.select(torch.tensor([True, False, True, True, False, True]))[0],
    ]:
        places = whole.places(part)
        assert torch.equal(augmentation.positions(part), positions[places])
        assert torch.equal(augmentation.embeddings(x[places], part), changed[places])
