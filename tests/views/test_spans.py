"""Masked spans: where they are, how long, and what is never masked."""

from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Generator
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from isotune.data.packed import Packed, pack
from isotune.views.spans import SHORTEST, mask_characters, mask_tokens

CLS, SEP, MASK = 2, 3, 4


@pytest.fixture
def tokenizer(tiny_model: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(tiny_model)


def sentence(length: int) -> list[int]:
    """[CLS], so many ordinary tokens, [SEP]."""
    return [CLS, *(10 + i % 15 for i in range(length)), SEP]


def span(tokens: Packed) -> list[tuple[int, int]]:
    """Start and length of each sentence's masks, in the caller's order; they must be a span."""
    spans = []
    for ids in tokens.ids.split(tokens.lengths.tolist()):
        places = (ids == MASK).nonzero().squeeze(1).tolist()
        assert places == list(range(places[0], places[0] + len(places))) if places else True
        spans.append((places[0] if places else 0, len(places)))
    return [spans[i] for i in tokens.order.argsort().tolist()]


def test_characters_become_one_mask_anywhere(tokenizer: PreTrainedTokenizerBase) -> None:
    text = "abcdefghijklmnopqrstuvwxyz0123456789"
    starts = Counter[int]()
    for masked in mask_characters([text] * 3200, tokenizer, 5, Generator().manual_seed(0)):
        left, right = masked.split(" [MASK] ")
        assert text == left + text[len(left) : len(left) + 5] + right
        starts[len(left)] += 1
    assert set(starts) == set(range(32))  # the first five characters to the last five
    assert min(starts.values()) > 60
    assert max(starts.values()) < 150


def test_the_cut_is_at_the_drawn_place_and_not_at_the_first_with_the_same_characters(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    masked = mask_characters(["a" * 40] * 50, tokenizer, 5, Generator().manual_seed(0))
    assert len({text.index("[") for text in masked}) > 10


def test_short_sentences_stay_whole(tokenizer: PreTrainedTokenizerBase) -> None:
    texts = ["a" * (SHORTEST - 1), "a" * SHORTEST]
    short, long = mask_characters(texts, tokenizer, 5, Generator())
    assert short == texts[0]
    assert " [MASK] " in long
    assert mask_characters(texts, tokenizer, 0, Generator()) == texts
    for length in (SHORTEST, SHORTEST + 9):  # no room for a span, or none beside it
        assert mask_characters(texts, tokenizer, length, Generator()) == texts


def test_the_mask_is_the_tokenizers_own(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.mask_token = "<mask>"
    (masked,) = mask_characters(["a" * SHORTEST], tokenizer, 5, Generator())
    assert " <mask> " in masked


def test_tokens_lengths_are_geometric_with_a_hard_cap(tokenizer: PreTrainedTokenizerBase) -> None:
    n = 20_000
    tokens = pack([sentence(12)] * n)
    masked = mask_tokens(tokens, tokenizer, 0.3, 5, Generator().manual_seed(0))
    lengths, starts = zip(*((length, start) for start, length in span(masked)), strict=True)
    shares = [lengths.count(length) / n for length in range(1, 6)]
    expected = [
        0.3,
        0.21,
        0.147,
        0.1029,
        0.2401,
    ]  # 0.3 * 0.7^(l-1), and all that is longer at 5: 0.7^4
    assert shares == pytest.approx(expected, abs=0.012)
    of_two = Counter(start for start, length in zip(starts, lengths, strict=True) if length == 2)
    assert set(of_two) == set(range(1, 12))  # places 1 to 12 are no special tokens
    assert min(of_two.values()) > 0.8 * of_two.total() / 11


def test_sentences_keep_their_length_order_and_specials(tokenizer: PreTrainedTokenizerBase) -> None:
    lengths = [9, 1, 5, 0, 2, 30, 5]
    tokens = pack([sentence(length) for length in lengths])
    for seed in range(30):
        masked = mask_tokens(tokens, tokenizer, 0.3, 5, Generator().manual_seed(seed))
        assert torch.equal(masked.lengths, tokens.lengths)
        assert torch.equal(masked.order, tokens.order)
        changed = masked.ids != tokens.ids
        assert torch.equal(changed, masked.ids == MASK)
        assert not ((tokens.ids == CLS) | (tokens.ids == SEP))[changed].any()
        counts = [length for _, length in span(masked)]
        assert all(
            count < max(length, 1) for count, length in zip(counts, lengths, strict=True)
        )  # never all of it
        assert all(count >= 1 for count, length in zip(counts, lengths, strict=True) if length >= 2)


def test_special_tokens_within_a_sentence_are_left_out(tokenizer: PreTrainedTokenizerBase) -> None:
    tokens = pack([[CLS, 10, SEP, SEP, 11, 12, SEP]] * 200)
    masked = mask_tokens(tokens, tokenizer, 1e-4, 2, Generator().manual_seed(0))
    places = {tuple((ids == MASK).nonzero().squeeze(1).tolist()) for ids in masked.ids.view(200, 7)}
    assert places == {(1, 4), (4, 5)}
    assert torch.equal(mask_tokens(tokens, tokenizer, 0.3, 0, Generator()).ids, tokens.ids)
