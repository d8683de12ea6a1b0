"""Pooling: from the hidden states of tokens to one vector a sentence.

The chosen layers are averaged, token by token; then the tokens of each sentence are pooled. Layers
are explicit numbers: 0 is the output of the embedding layer, k the output of block k, and negative
numbers count from the last. So (-2, -1) are the last two blocks, (1, -1) the first and the last
block, (0, -1) the embeddings and the last block. Each of the three is called "first-last" or
"last-2" in some paper; a number can't be misread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from isotune.data.packed import Packed, computed_once
from isotune.encoder.options import POOLINGS
from isotune.encoder.wk_pooling import wk_pooling
from isotune.errors import InputError

# The poolings that weigh layers by themselves.
WK = ("wk", "wk-released")
# The smallest sum of weights that a mean divides by, as in sentence-transformers.
LEAST_WEIGHT = 1e-9


@dataclass(frozen=True)
class Pooling:
    """Averages layers, then pools tokens.

    It is sentence-transformers' Pooling (and WeightedLayerPooling) without padding.
    """

    mode: str = "mean"
    """A name in `POOLINGS`."""
    layers: tuple[int, ...] = (-1,)
    """The hidden states to average. The poolings of `WK` weigh them."""
    weights: tuple[float, ...] | None = None
    """A weight for each layer; None for equal weights."""
    mask_id: int = -1
    """The mask token's id, for mode "mask"; -1 is no token's."""
    mask_first: bool = False
    """Whether the prompt's mask token is before the sentence, which may have others."""
    each: bool = False
    """Whether layers are pooled by themselves, to several vectors a sentence: self-guided views."""

    def resolve(self, blocks: int) -> dict[int, float]:
        """Maps each layer, as a number from 0 to `blocks`, to its share of the average."""
        for layer in self.layers:
            if not -blocks - 1 <= layer <= blocks:
                raise InputError(
                    f"pooling layer {layer}: the model has {blocks} blocks, so layers are 0 (the "
                    f"embeddings) to {blocks}, or -1 (the last) to {-blocks - 1}"
                )
        numbers = [layer % (blocks + 1) for layer in self.layers]
        shares = self._shares(numbers)
        return dict(zip(numbers, shares, strict=True))

    def _shares(self, numbers: Sequence[int]) -> list[float]:
        """The shares of the layers of these numbers in the average."""
        if len(set(numbers)) < len(numbers) or not numbers:
            raise InputError(
                f"pooling layers {list(self.layers)}: name at least one layer, and each one once"
            )
        weights = self.weights or (1.0,) * len(numbers)
        if len(weights) != len(numbers) or sum(weights) == 0:
            raise InputError(
                f"{len(weights)} layer weights for {len(numbers)} layers, with sum {sum(weights)}"
            )
        if self.mode in WK and (len(numbers) < 3 or self.weights):
            raise InputError(
                f"pooling {self.mode} weighs three or more layers by itself; got layers "
                f"{list(self.layers)}"
            )
        total = sum(weights)
        return [weight / total for weight in weights]

    def on_last_layer(self) -> Self:
        """The same pooling of the last layer alone.

        ConSERT trains on it in every setting (section 4.1).
        """
        return replace(self, layers=(-1,), weights=None)

    def numbered(self, blocks: int) -> Self:
        """The same pooling, with layers from 0 to `blocks`. Raises errors as `resolve`."""
        return replace(self, layers=tuple(self.resolve(blocks)))

    def __call__(
        self, states: Mapping[int, Tensor], tokens: Packed, token_weights: Tensor | None = None
    ) -> Tensor:
        """Pools packed hidden states to [N, d], in packed order.

        The vectors are float32, and float64 for float64 states. The pooling has to be `numbered`,
        and `states` are the hidden states [T, d] of its layers. In mode "mean", a token weighs what
        `token_weights` [vocabulary] says for its id; None for equal weights. With `each`, the
        result is [N, layers, d].
        """
        if self.each:
            vectors = []
            for layer in self.layers:
                pooling = replace(self, layers=(layer,), each=False)
                vectors.append(pooling(states, tokens, token_weights))
            return torch.stack(vectors, dim=1)
        shares = self.resolve(max(self.layers))
        return POOLINGS[self.mode](HiddenStates(states, shares, tokens, token_weights, self))


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """The hidden states of N packed sentences with T tokens, of which a pooling makes N vectors."""

    layers: Mapping[int, Tensor]
    """The states [T, d] of each chosen layer, by its number; 0 is the embeddings."""
    shares: Mapping[int, float]
    """The share of each chosen layer in the average; their sum is 1."""
    tokens: Packed
    """The sentences."""
    token_weights: Tensor | None
    """[vocabulary] how much each token weighs in a mean; None for equal weights."""
    pooling: Pooling

    @computed_once
    def average(self) -> Tensor:
        """[T, d] float32 (float64 for float64 states): the average of the chosen layers."""
        weighted = [share * self[layer] for layer, share in self.shares.items()]
        return torch.stack(weighted).sum(0)

    def __getitem__(self, layer: int) -> Tensor:
        states = self.layers[layer]
        return states.to(torch.promote_types(states.dtype, torch.float32))

    def sentence_means(self, weights: Tensor) -> Tensor:
        """[N, d]: the mean of each sentence's tokens, which weigh `weights` [T]."""
        x = self.average
        tokens = self.tokens
        zeros = x.new_zeros(len(tokens), x.shape[1])
        total = zeros.index_add(0, tokens.segments, x * weights[:, None])  # [N, d]
        sums = weights.new_zeros(len(tokens)).index_add(0, tokens.segments, weights)  # [N]
        return total / sums.clamp(min=LEAST_WEIGHT)[:, None]


def first_tokens(hidden: HiddenStates) -> Tensor:
    """Pooling cls: the first token of each sentence."""
    return hidden.average[hidden.tokens.offsets]


def last_tokens(hidden: HiddenStates) -> Tensor:
    """Pooling lasttoken: the last token of each sentence."""
    return hidden.average[
        hidden.tokens.offsets + hidden.tokens.on_device(hidden.tokens.lengths) - 1
    ]


def mean(hidden: HiddenStates) -> Tensor:
    """Pooling mean: the mean of the tokens, by the tokens' weights if there are any."""
    if hidden.token_weights is None:
        return hidden.sentence_means(torch.ones_like(hidden.tokens.positions))
    return hidden.sentence_means(hidden.token_weights[hidden.tokens.ids].to(hidden.average.dtype))


def maximum(hidden: HiddenStates) -> Tensor:
    """Pooling max: the largest value of each feature."""
    x = hidden.average
    lowest = x.new_full((len(hidden.tokens), x.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, hidden.tokens.segments[:, None].expand_as(x), x, "amax")


def mean_by_position(hidden: HiddenStates) -> Tensor:
    """Pooling weightedmean: a mean in which token k of a sentence, from 1, weighs k."""
    return hidden.sentence_means(hidden.tokens.positions + 1)


def mask_tokens(hidden: HiddenStates) -> Tensor:
    """Pooling mask: the prompt's mask token, which is the first or the last of each sentence."""
    tokens = hidden.tokens
    count = len(tokens.ids)
    is_mask = tokens.ids == hidden.pooling.mask_id  # [T]
    places = torch.arange(count, device=tokens.ids.device)  # [T]
    # A token that is no mask token gets a place that is never chosen beside a real one.
    if hidden.pooling.mask_first:
        places = places.where(is_mask, count)
        choice = "amin"
    else:
        places = places.where(is_mask, -1)
        choice = "amax"
    first = places[tokens.offsets]  # [N]
    mask_places = first.scatter_reduce(0, tokens.segments, places, choice)  # [N]
    has_mask = (mask_places >= 0) & (mask_places < count)  # [N]
    # On a GPU, nobody waits to ask: the vector is no number.
    if has_mask.is_cpu and not has_mask.all():
        raise InputError(
            "pooling mask: a sentence has no mask token; the prompt has to bring one: {mask}"
        )
    vectors = hidden.average[mask_places.clamp(0, count - 1)]  # [N, d]
    return vectors.where(has_mask[:, None], torch.nan)


def wk(hidden: HiddenStates) -> Tensor:
    """Pooling wk: SBERT-WK's weights of layers and tokens, see `wk_pooling`."""
    states = [hidden[layer] for layer in sorted(hidden.shares)]
    return wk_pooling(states, hidden.tokens, released=hidden.pooling.mode == "wk-released")


def change_pooling(
    pooling: Pooling, mode: str | None, layers: Sequence[int] | None, blocks: int
) -> Pooling:
    """Replaces the mode and the layers of a pooling where they are given; `blocks` are the model's.

    Named layers are averaged with equal weights. A change to a pooling of `WK` alone takes its own
    choice of layers: from the fourth block on, as in the authors' code, and at least three layers.
    """
    if layers is None and mode in WK and pooling.mode not in WK:
        layers = range(min(4, blocks - 2), blocks + 1)
    if layers is not None:
        pooling = replace(pooling, layers=tuple(layers), weights=None)
    return replace(pooling, mode=mode or pooling.mode)


@dataclass(frozen=True, eq=False)
class TokenStates:
    """Takes the last hidden state of single tokens, without pooling (masked language modelling)."""

    places: Tensor
    """[M] int64, the tokens' places in the packed row; on the CPU."""
    layers: tuple[int, ...] = (-1,)

    def numbered(self, blocks: int) -> Self:
        """The same, with the number of the last layer."""
        return replace(self, layers=(blocks,))

    def __call__(
        self, states: Mapping[int, Tensor], tokens: Packed, token_weights: Tensor | None = None
    ) -> Tensor:
        """Hidden states [T, d] -> [M, d]."""
        (layer,) = self.layers
        return states[layer][tokens.on_device(self.places)]
