"""Masked tokens: the input of masked language modelling (BERT, section 3.1, "Masked LM").

Each token is chosen independently with the same probability, as in transformers' data collator;
BERT's own code chooses an exact number in each sentence. Of the chosen tokens, 80 % become [MASK],
10 % become a random token, and 10 % stay. Special tokens are never chosen, and never take the place
of a token.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Generator, Tensor
from transformers import PreTrainedTokenizerBase

from isotune.data.packed import Packed, to_device
from isotune.errors import InputError


@dataclass(frozen=True, eq=False)
class Masked:
    """Sentences with M masked tokens, which a model is to guess."""

    tokens: Packed
    """The sentences after masking."""

    places: Tensor
    """[M] int64, the places of the chosen tokens in the packed batch, ascending; on the CPU."""

    targets: Tensor
    """[M] int64, the ids of the chosen tokens before masking."""

    def to(self, device: torch.device | str) -> Self:
        """The same on another device."""
        return replace(self, tokens=self.tokens.to(device), targets=to_device(self.targets, device))


def mask_token_id(tokenizer: PreTrainedTokenizerBase, use: str, choice: str) -> int:
    """The id of the mask token.

    Raises:
        InputError: there is none. The message names the use that needs it, and the choice instead.
    """
    if tokenizer.mask_token_id is None:
        raise InputError(f"{use}: the model's tokenizer has no mask token; choose {choice}")
    return int(tokenizer.mask_token_id)


def ordinary_tokens(tokenizer: PreTrainedTokenizerBase) -> Tensor:
    """[V] bool: which tokens of the vocabulary are not special."""
    ordinary = torch.ones(len(tokenizer), dtype=torch.bool)
    ordinary[tokenizer.all_special_ids] = False
    return ordinary


def masked(
    tokens: Packed, tokenizer: PreTrainedTokenizerBase, rate: float, generator: Generator
) -> Masked:
    """Chooses tokens of packed sentences, each with probability `rate`, and masks them.

    All is on the CPU.
    """
    ids = tokens.ids  # [T]
    ordinary = ordinary_tokens(tokenizer)  # [V]
    is_chosen = torch.rand(len(ids), generator=generator) < rate  # [T]
    places = (ordinary[ids] & is_chosen).nonzero().squeeze(1)  # [M]
    fate = torch.rand(len(places), generator=generator)  # [M]
    words = ordinary.nonzero().squeeze(1)  # [W] int64
    words = words[torch.randint(len(words), (len(places),), generator=generator)]  # [M]
    targets = ids[places]  # [M]
    mask = tokenizer.mask_token_id
    changed = torch.where(fate < 0.8, mask, torch.where(fate < 0.9, words, targets))  # [M]
    return Masked(replace(tokens, ids=ids.index_copy(0, places, changed)), places, targets)
