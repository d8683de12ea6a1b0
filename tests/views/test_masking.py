"""Masked tokens: which are chosen, and what becomes of them."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor
from transformers import PreTrainedTokenizerBase

from isotune.data.packed import Packed, pack
from isotune.encoder.format.pretrained import load_tokenizer
from isotune.views import masking


@pytest.fixture
def tokenizer(tiny_model: Path) -> PreTrainedTokenizerBase:
    return load_tokenizer(tiny_model)


@pytest.fixture
def tokens(tokenizer: PreTrainedTokenizerBase) -> Packed:
    """A thousand sentences of every word, an unknown one among them, of 2 to 27 tokens."""
    generator = Generator().manual_seed(0)
    words = [i for i in range(len(tokenizer)) if i not in (0, 2, 3, 4)]
    picks = torch.randint(len(words), (1000, 25), generator=generator).tolist()
    return pack([[2, *(words[i] for i in pick[: k % 26]), 3] for k, pick in enumerate(picks)])


def masked(
    tokenizer: PreTrainedTokenizerBase, tokens: Packed, rate: float, seed: int = 1
) -> tuple[Packed, Tensor]:
    result = masking.masked(tokens, tokenizer, rate, Generator().manual_seed(seed))
    assert torch.equal(result.targets, tokens.ids[result.places])
    return result.tokens, result.places


@pytest.mark.parametrize("rate", [0.15, 0.5])
def test_ordinary_tokens_are_chosen_at_the_rate_and_special_ones_never(
    tokenizer: PreTrainedTokenizerBase, tokens: Packed, rate: float
) -> None:
    _, places = masked(tokenizer, tokens, rate)
    ordinary = ~torch.isin(tokens.ids, torch.tensor(tokenizer.all_special_ids))
    assert ordinary[places].all()
    assert (places.diff() > 0).all()
    n = int(ordinary.sum())
    assert abs(len(places) - rate * n) < 4 * math.sqrt(n * rate * (1 - rate))


def test_eight_in_ten_become_the_mask_and_one_another_word(
    tokenizer: PreTrainedTokenizerBase, tokens: Packed
) -> None:
    result, places = masked(tokenizer, tokens, 0.5)
    before, after = tokens.ids[places], result.ids[places]
    n, words = len(places), len(tokenizer) - 5
    changed = (after != before) & (after != 4)
    # A tenth of the tokens gets a random word. One time in `words` this is the word that was there.
    for count, share in (((after == 4).sum(), 0.8), (changed.sum(), 0.1 * (1 - 1 / words))):
        assert abs(int(count) - share * n) < 4 * math.sqrt(n * share * (1 - share))
    assert set(after[changed].tolist()) == set(range(5, len(tokenizer)))


def test_nothing_else_changes(tokenizer: PreTrainedTokenizerBase, tokens: Packed) -> None:
    tokens = replace(tokens, types=torch.ones_like(tokens.ids))
    result, places = masked(tokenizer, tokens, 0.15)
    others = torch.ones(len(tokens.ids), dtype=torch.bool).index_fill(0, places, False)
    assert torch.equal(result.ids[others], tokens.ids[others])
    assert torch.equal(result.lengths, tokens.lengths)
    assert torch.equal(result.order, tokens.order)
    assert result.types is tokens.types

    none, nowhere = masked(tokenizer, tokens, 0.0)
    assert torch.equal(none.ids, tokens.ids)
    assert len(nowhere) == 0


def test_the_generator_decides(tokenizer: PreTrainedTokenizerBase, tokens: Packed) -> None:
    first, again, other = (masked(tokenizer, tokens, 0.15, seed)[0].ids for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
