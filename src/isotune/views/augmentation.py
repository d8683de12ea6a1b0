"""Views made inside the embedding layer (ConSERT, section 3.2).

An augmentation changes what the first transformer block sees: the position ids that go into the embedding layer, or
the embeddings that come out of it (after its LayerNorm and dropout). It works on packed tokens, all sentences at
once. Two invariants: the number of positions, tokens, features or elements changed in a sentence is exact, never an
expectation, and every random number comes from the `torch.Generator` given, so the same seed gives the same view.

Each count is floor(rate * n) per sentence; what is cut off becomes 0 and what stays is not rescaled, as in the
authors' code. Special tokens are tokens like any other here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from isotune.data.packed import Packed


class Augmentation:
    """Leaves a sentence as it is; subclasses override what they change."""

    def positions(self, tokens: Packed, generator: Generator) -> Tensor:
        """The position of every token, [T] int64, each sentence counting from 0."""
        return tokens.positions

    def embeddings(self, embeddings: Tensor, tokens: Packed, generator: Generator) -> Tensor:
        """The embedding layer's output [T, d], changed."""
        return embeddings


@dataclass(frozen=True)
class NoAugmentation(Augmentation):
    """The sentence as it is ("None" in ConSERT's Figure 5)."""


@dataclass(frozen=True)
class Shuffle(Augmentation):
    """Token shuffling: each sentence's position ids in random order, its token ids where they were."""

    def positions(self, tokens: Packed, generator: Generator) -> Tensor:
        """A random permutation of each sentence's positions, [T] int64."""
        return tokens.positions[_shuffled(tokens, generator)]


@dataclass(frozen=True)
class TokenCutoff(Augmentation):
    """Token cutoff: floor(rate * length) tokens of each sentence lose all their features."""

    rate: float

    def embeddings(self, embeddings: Tensor, tokens: Packed, generator: Generator) -> Tensor:
        """[T, d] with the rows of the tokens cut off at 0."""
        count = (self.rate * tokens.lengths.cpu().double()).long().to(embeddings.device)  # [N]
        shuffled = _shuffled(tokens, generator)  # [T]
        cut = shuffled[tokens.positions < count[tokens.segments]]
        return embeddings.index_fill(0, cut, 0.0)


@dataclass(frozen=True)
class FeatureCutoff(Augmentation):
    """Feature cutoff: floor(rate * d) features, drawn for each sentence, are 0 in all its tokens."""

    rate: float

    def embeddings(self, embeddings: Tensor, tokens: Packed, generator: Generator) -> Tensor:
        """[T, d] with the features cut off at 0."""
        d = embeddings.shape[-1]
        keep = _exact_mask((len(tokens), d), int(self.rate * d), embeddings, generator)  # [N, d]
        return embeddings * keep[tokens.segments]


@dataclass(frozen=True)
class EmbeddingDropout(Augmentation):
    """Dropout: floor(rate * length * d) elements of each sentence, each by itself, are 0."""

    rate: float

    def embeddings(self, embeddings: Tensor, tokens: Packed, generator: Generator) -> Tensor:
        """[T, d] with the elements dropped at 0."""
        d = embeddings.shape[-1]
        keep = [
            _exact_mask((n, length * d), int(self.rate * (length * d)), embeddings, generator).view(n * length, d)
            for length, n in tokens.groups
        ]
        return embeddings * torch.cat(keep)


@dataclass(frozen=True)
class PerView(Augmentation):
    """Several views in one batch, one after another in the caller's order: view k gets augmentation k.

    Attributes:
        augmentations: each view's augmentation.
        sizes: how many sentences each view has.
    """

    augmentations: Sequence[Augmentation]
    sizes: Sequence[int]

    def positions(self, tokens: Packed, generator: Generator) -> Tensor:
        """Each view's own positions, [T] int64."""
        positions = tokens.positions
        for augmentation, view, index in self._views(tokens):
            positions = positions.index_copy(0, index, augmentation.positions(view, generator))
        return positions

    def embeddings(self, embeddings: Tensor, tokens: Packed, generator: Generator) -> Tensor:
        """Each view's own embeddings, [T, d]."""
        for augmentation, view, index in self._views(tokens):
            changed = augmentation.embeddings(embeddings[index], view, generator)
            embeddings = embeddings.index_copy(0, index, changed)
        return embeddings

    def _views(self, tokens: Packed) -> list[tuple[Augmentation, Packed, Tensor]]:
        """Each augmentation that changes something, with its sentences and where their tokens stand."""
        views, start = [], 0
        for augmentation, size in zip(self.augmentations, self.sizes, strict=True):
            if augmentation != NoAugmentation():
                mine = (tokens.order >= start) & (tokens.order < start + size)  # [N]
                index = mine[tokens.segments].nonzero().squeeze(1)
                view = Packed(tokens.ids[index], tokens.lengths[mine], tokens.order[mine] - start)
                views.append((augmentation, view, index))
            start += size
        return views


def _shuffled(tokens: Packed, generator: Generator) -> Tensor:
    """[T] int64: the tokens' indexes, in random order within each sentence, sentence after sentence."""
    shuffled = torch.rand(len(tokens.ids), generator=generator, device=tokens.ids.device).argsort()
    return shuffled[tokens.segments[shuffled].argsort(stable=True)]


def _exact_mask(shape: tuple[int, int], count: int, like: Tensor, generator: Generator) -> Tensor:
    """A 0/1 mask of this shape in the type of `like`, with exactly `count` zeros in every row."""
    zeros = torch.rand(shape, generator=generator, device=like.device).topk(count, dim=1).indices
    return torch.ones(shape, dtype=like.dtype, device=like.device).scatter_(1, zeros, 0.0)
