"""Masked spans: the other view of a sentence (MirrorBERT, Liu et al., 2021; BERT-CF, section 4.1).

MirrorBERT cuts 5 characters out of the text, anywhere, also inside words, and puts one mask in
their place. Its code writes "[MASK]" for every model, and cuts at the first place where the drawn
characters occur. Here the mask is the tokenizer's, and the cut is at the drawn place. BERT-CF
follows SpanBERT: it masks whole tokens, so a sentence keeps its length. All random numbers come
from the given `torch.Generator`, which is on the CPU.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Generator
from transformers import PreTrainedTokenizerBase

from isotune.data.packed import Packed
from isotune.views.masking import ordinary_tokens

SHORTEST = 30
"""Characters of a sentence. MirrorBERT's code leaves shorter sentences as they are."""


def mask_characters(
    sentences: Sequence[str], tokenizer: PreTrainedTokenizerBase, length: int, generator: Generator
) -> list[str]:
    """Replaces `length` characters of each sentence by one mask.

    All places of a span are equally likely. A sentence of fewer than 30 characters, or of no more
    than `length`, stays as it is.
    """
    masked = []
    shortest = max(SHORTEST, length + 1)
    shares = torch.rand(len(sentences), generator=generator).tolist()
    for sentence, share in zip(sentences, shares, strict=True):
        if length and len(sentence) >= shortest:
            start = int(share * (len(sentence) - length + 1))
            rest = sentence[start + length :]
            sentence = f"{sentence[:start]} {tokenizer.mask_token} {rest}"
        masked.append(sentence)
    return masked


def mask_tokens(
    tokens: Packed,
    tokenizer: PreTrainedTokenizerBase,
    rate: float,
    longest: int,
    generator: Generator,
) -> Packed:
    """Replaces each token of a span of each sentence by a mask, on the CPU.

    The length of a span has a geometric distribution, P(l) = rate (1 - rate)^(l - 1), and longer
    spans are cut to `longest`: BERT-CF's "hard-cap". (SpanBERT draws again instead. Then BERT-CF
    could not have a cap of 0, which is SimCSE.) A span has no special tokens, and at least one
    other token of the sentence stays.
    """
    lengths = torch.empty(len(tokens)).geometric_(rate, generator=generator)  # [N]
    lengths = lengths.clamp(max=longest)  # [N]
    shares = torch.rand(len(tokens), generator=generator)  # [N]
    ordinary = ordinary_tokens(tokenizer)[tokens.ids]  # [T]
    counts = torch.zeros_like(tokens.lengths).index_add(0, tokens.segments, ordinary.long())  # [N]
    # A sentence without ordinary tokens has the length -1.
    lengths = torch.minimum(lengths.to(counts), counts - 1)  # [N]
    starts = (shares * (counts - lengths + 1)).long()  # [N]
    # The number of an ordinary token among those of its sentence, and its place in the span.
    numbers = ordinary.cumsum(0) - 1 - (counts.cumsum(0) - counts)[tokens.segments]  # [T]
    places = numbers - starts[tokens.segments]  # [T]
    chosen = ordinary & (places >= 0) & (places < lengths[tokens.segments])  # [T]
    return replace(tokens, ids=tokens.ids.masked_fill(chosen, tokenizer.mask_token_id))
