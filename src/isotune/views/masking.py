"""Masked tokens: the input of masked language modelling (BERT, section 3.1, "Masked LM").

Each token is chosen with the same probability and by itself, as transformers' data collator does it; BERT's own code
draws an exact number a sentence. Of the chosen ones 80 % become [MASK], 10 % another token and 10 % stay what they
are. Special tokens are neither chosen nor put in a token's place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor
from transformers import PreTrainedTokenizerBase

from isotune.data.packed import Packed
from isotune.errors import InputError


@dataclass(frozen=True, eq=False)
class Masked:
    """Sentences to be completed.

    Attributes:
        tokens: the sentences, with masks.
        places: [M] int64, the packed places of the chosen tokens, ascending.
        targets: [M] int64, what stood there.
    """

    tokens: Packed
    places: Tensor
    targets: Tensor


def mask_token_id(tokenizer: PreTrainedTokenizerBase, use: str, choice: str) -> int:
    """The mask token's id.

    Raises:
        InputError: there is none; it names the use that needs one, and what to choose instead.
    """
    if tokenizer.mask_token_id is None:
        raise InputError(f"{use}: the model's tokenizer has no mask token; choose {choice}")
    return int(tokenizer.mask_token_id)


def ordinary_tokens(tokenizer: PreTrainedTokenizerBase) -> Tensor:
    """[V] bool: which tokens of the vocabulary are not special."""
    ordinary = torch.ones(len(tokenizer), dtype=torch.bool)
    ordinary[tokenizer.all_special_ids] = False
    return ordinary


class Masking:
    """Masks the tokens of a tokenizer's sentences."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, rate: float) -> None:
        """`rate` is the probability that a token is chosen.

        Raises:
            InputError: the tokenizer has no mask.
        """
        self.mask = mask_token_id(tokenizer, "masked language modelling", "another model")
        self.rate = rate
        self.ordinary = ordinary_tokens(tokenizer)  # [V]
        self.words = self.ordinary.nonzero().squeeze(1)  # [W] int64

    def __call__(self, tokens: Packed, generator: Generator) -> Masked:
        """Chooses tokens and changes them; `generator` is the CPU's."""
        ids = tokens.ids.cpu()  # [T]
        places = (self.ordinary[ids] & (torch.rand(len(ids), generator=generator) < self.rate)).nonzero().squeeze(1)
        fate = torch.rand(len(places), generator=generator)  # [M]
        words = self.words[torch.randint(len(self.words), (len(places),), generator=generator)]  # [M]
        targets = ids[places]  # [M]
        changed = torch.where(fate < 0.8, self.mask, torch.where(fate < 0.9, words, targets))  # [M]
        device = tokens.ids.device
        masked = replace(tokens, ids=ids.index_copy(0, places, changed).to(device))
        return Masked(masked, places.to(device), targets.to(device))
