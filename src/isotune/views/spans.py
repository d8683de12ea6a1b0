"""Spans of a sentence masked, which makes its other view (MirrorBERT, Liu et al., 2021; BERT-CF, section 4.1).

MirrorBERT cuts 5 characters out of the text and puts one mask in their place, wherever they are, also within words.
Its code writes "[MASK]" for every model, which is no mask to RoBERTa, and cuts at the first place where the drawn
characters occur; here it is the tokenizer's own mask, at the place that was drawn. BERT-CF masks whole tokens, each by
a mask of its own as in SpanBERT, which it follows, so a sentence keeps its length.

Every random number comes from the `torch.Generator` given, which is the CPU's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Generator
from transformers import PreTrainedTokenizerBase

from isotune.data.packed import Packed
from isotune.views.masking import mask_token_id, ordinary_tokens

SHORTEST = 30  # characters; MirrorBERT's code leaves a shorter sentence as it is


class CharacterSpans:
    """One span of `length` characters of every sentence of 30 or more becomes a mask, if the sentence is longer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, length: int) -> None:
        """Takes the tokenizer's mask.

        Raises:
            InputError: it has none.
        """
        _mask_id(tokenizer)
        self.mask = str(tokenizer.mask_token)
        self.length = length

    def __call__(self, sentences: Sequence[str], generator: Generator) -> list[str]:
        """The sentences, masked; every start is as likely."""
        masked, shortest = [], max(SHORTEST, self.length + 1)
        for sentence, share in zip(sentences, torch.rand(len(sentences), generator=generator).tolist(), strict=True):
            start = int(share * (len(sentence) - self.length + 1))
            cut = f"{sentence[:start]} {self.mask} {sentence[start + self.length :]}"
            masked.append(cut if self.length and len(sentence) >= shortest else sentence)
        return masked


class TokenSpans:
    """One span of tokens of every sentence becomes masks.

    A span's length is geometrically distributed, P(l) = rate (1 - rate)^(l - 1), and capped: all that is longer becomes
    `longest`, as BERT-CF's "hard-cap" says (SpanBERT draws again; then a cap of 0, BERT-CF's SimCSE, would not exist).
    Special tokens are no part of a span, and at least one other token of a sentence stays.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, rate: float, longest: int) -> None:
        """Takes the tokenizer's mask and special tokens.

        Raises:
            InputError: it has no mask.
        """
        self.mask = _mask_id(tokenizer)
        self.rate = rate
        self.longest = longest
        self.ordinary = ordinary_tokens(tokenizer)  # [V]

    def __call__(self, tokens: Packed, generator: Generator) -> Packed:
        """The sentences, masked."""
        lengths = torch.empty(len(tokens)).geometric_(self.rate, generator=generator).clamp(max=self.longest)  # [N]
        shares = torch.rand(len(tokens), generator=generator)  # [N]
        ordinary = self.ordinary.to(tokens.ids.device)[tokens.ids]  # [T]
        counts = torch.zeros_like(tokens.lengths).index_add(0, tokens.segments, ordinary.long())  # [N]
        lengths = torch.minimum(lengths.to(counts), counts - 1)  # [N], -1 where there is nothing to mask
        starts = (shares.to(counts.device) * (counts - lengths + 1)).long()  # [N]
        # An ordinary token's number among those of its sentence, and from there its place in the span.
        numbers = ordinary.cumsum(0) - 1 - (counts.cumsum(0) - counts)[tokens.segments]  # [T]
        places = numbers - starts[tokens.segments]  # [T]
        chosen = ordinary & (places >= 0) & (places < lengths[tokens.segments])  # [T]
        return replace(tokens, ids=tokens.ids.masked_fill(chosen, self.mask))


def _mask_id(tokenizer: PreTrainedTokenizerBase) -> int:
    return mask_token_id(tokenizer, "masked spans", "a span_length of 0, or another model")
