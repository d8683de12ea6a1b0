"""Views made inside the embedding layer (ConSERT, section 3.2).

An augmentation changes the input of the first transformer block: the position ids that go into the
embedding layer, or the embeddings that come out of it (after its LayerNorm and dropout). It works
on packed tokens, on all sentences at once. Two invariants: the number of tokens, features or
elements changed in a sentence is exact, not an expectation; and the random numbers of a sentence
follow from its seed (`Packed.seeds`), so the same seed gives the same view.

Each number is floor(rate * n) for each sentence. As in the authors' code, what is cut off becomes
0, what stays is not rescaled, and special tokens are tokens like any other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from isotune.data.draws import random_bits, split_seeds
from isotune.data.packed import Packed
from isotune.views import AUGMENTATIONS

SPLIT = 2**32
"""The number by which an augmentation splits a sentence's seed.

Dropout splits the same seed by the numbers from 0.
"""

A = TypeVar("A", bound="type[Augmentation]")


def augmentation(name: str) -> Callable[[A], A]:
    """A decorator that registers a subclass of `Augmentation`.

    Its name is a value of the option `augmentations` of methods with views.
    """
    return AUGMENTATIONS.adding(name)


@dataclass(frozen=True)
class Augmentation:
    """Leaves the sentence as it is ("None" in ConSERT's Figure 5).

    A subclass overrides what it changes.
    """

    @classmethod
    def from_options(cls, options: Any) -> Self:
        """Makes the augmentation from a method's options (`AugmentedOptions`).

        Most augmentations need none of them.
        """
        return cls()

    def positions(self, tokens: Packed) -> Tensor:
        """The position of every token in its sentence, [T] int64, from 0."""
        return tokens.positions

    def embeddings(self, embeddings: Tensor, tokens: Packed) -> Tensor:
        """The changed output of the embedding layer, [T, d]."""
        return embeddings


@dataclass(frozen=True)
class Shuffle(Augmentation):
    """Token shuffling: the position ids of each sentence get a random order.

    The token ids stay where they are.
    """

    def positions(self, tokens: Packed) -> Tensor:
        """The permuted positions, [T] int64."""
        return tokens.positions[_shuffled(tokens)]


@dataclass(frozen=True)
class TokenCutoff(Augmentation):
    """Token cutoff: floor(rate * length) tokens of each sentence lose all their features."""

    rate: float = 0.15
    """The share of tokens. This rate, and those of the next two classes: ConSERT, section 4.1."""

    def embeddings(self, embeddings: Tensor, tokens: Packed) -> Tensor:
        """The embeddings, 0 in the rows of the tokens that are cut off, [T, d]."""
        count = (self.rate * tokens.lengths.double()).long()  # [N]
        # The places of as many tokens, those that stand first in their sentences.
        first = (tokens.cpu_positions < count[tokens.cpu_segments]).nonzero().squeeze(1)
        return embeddings.index_fill(0, _shuffled(tokens)[tokens.on_device(first)], 0.0)


@dataclass(frozen=True)
class FeatureCutoff(Augmentation):
    """Feature cutoff: floor(rate * d) features are 0 in all tokens of a sentence.

    Each sentence draws its features.
    """

    rate: float = 0.2

    def embeddings(self, embeddings: Tensor, tokens: Packed) -> Tensor:
        """The embeddings, 0 in the features that are cut off, [T, d]."""
        d = embeddings.shape[-1]
        keep = _exact_mask(_seeds(tokens), d, int(self.rate * d))  # [N, d]
        return embeddings * keep[tokens.segments]


@dataclass(frozen=True)
class EmbeddingDropout(Augmentation):
    """Dropout: floor(rate * length * d) single elements of each sentence are 0."""

    rate: float = 0.2

    def embeddings(self, embeddings: Tensor, tokens: Packed) -> Tensor:
        """The embeddings, 0 in the elements that are dropped, [T, d]."""
        d = embeddings.shape[-1]
        seeds = _seeds(tokens).split([n for _, n in tokens.groups])
        masks = []
        for (length, n), group_seeds in zip(tokens.groups, seeds, strict=True):
            elements = length * d
            mask = _exact_mask(group_seeds, elements, int(self.rate * elements))  # [n, elements]
            masks.append(mask.view(n * length, d))
        return embeddings * torch.cat(masks)


@dataclass(frozen=True)
class PerView(Augmentation):
    """Augments several views in one batch, which follow each other in the caller's order."""

    augmentations: Sequence[Augmentation]
    """The augmentation of each view."""

    sizes: Sequence[int]
    """The number of sentences of each view."""

    def positions(self, tokens: Packed) -> Tensor:
        """The positions from each view's augmentation, [T] int64."""
        positions = tokens.positions
        for augmentation, view, index in self._views(tokens):
            positions = positions.index_copy(0, index, augmentation.positions(view))
        return positions

    def embeddings(self, embeddings: Tensor, tokens: Packed) -> Tensor:
        """The embeddings from each view's augmentation, [T, d]."""
        for augmentation, view, index in self._views(tokens):
            changed = augmentation.embeddings(embeddings[index], view)
            embeddings = embeddings.index_copy(0, index, changed)
        return embeddings

    def _views(self, tokens: Packed) -> list[tuple[Augmentation, Packed, Tensor]]:
        """The augmentation of each view, its sentences, and the places of their tokens [T]."""
        views = []
        start = 0
        for augmentation, size in zip(self.augmentations, self.sizes, strict=True):
            chosen = (tokens.order >= start) & (tokens.order < start + size)  # [N]
            if augmentation != Augmentation() and chosen.any():
                view, index = tokens.select(chosen)
                views.append((augmentation, replace(view, order=view.order - start), index))
            start += size
        return views


def _seeds(tokens: Packed) -> Tensor:
    assert tokens.seeds is not None, "an augmentation needs the sentences' seeds"
    return split_seeds(tokens.seeds, SPLIT)


def _shuffled(tokens: Packed) -> Tensor:
    """[T] int64: the places of all tokens, in random order within each sentence."""
    shuffled = split_seeds(_seeds(tokens)[tokens.segments], tokens.positions).argsort()
    return shuffled[tokens.segments[shuffled].argsort(stable=True)]


def _exact_mask(seeds: Tensor, width: int, count: int) -> Tensor:
    """A mask [n, width] with exactly `count` False in the row of each seed [n]."""
    dropped = random_bits(seeds, width).topk(count, dim=1).indices
    mask = torch.ones(len(seeds), width, dtype=torch.bool, device=seeds.device)
    return mask.scatter_(1, dropped, False)
