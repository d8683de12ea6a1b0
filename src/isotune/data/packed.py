"""Sentences without padding: the token ids of N sentences in one flat tensor.

Invariant: the sentences of a `Packed` batch stand shortest first. So sentences of equal length are
one contiguous slice, and attention over them is one dense product without a mask. Results come out
in this order; `Packed.restore` brings them back into the caller's order.

Letters of the shape comments, here and in views/ and encoder/: N sentences, T tokens of all
sentences, d features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


class computed_once(Generic[T]):
    """`functools.cached_property` without a lock.

    In Python 3.11 all objects share that lock, and a fork may copy it locked.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        value = self._compute(instance)
        # From now on the value is found there, and this method is not called.
        instance.__dict__[self._compute.__name__] = value
        return value


def to_device(x: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on a device.

    A copy from the CPU to a GPU is made from pinned memory, and nobody waits for it.
    """
    if x.is_cpu and torch.device(device).type == "cuda":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


@dataclass(frozen=True, eq=False)
class Packed:
    """Token ids of N sentences, shortest sentence first.

    How the sentences lie is known on the CPU: `lengths` and `order` never leave it. So no size is
    asked of a GPU, which would have to finish all its work first. What follows from them is
    computed on the CPU, and moved when it is used.
    """

    ids: Tensor
    """[T] int64, the token ids of all sentences, special tokens included."""

    lengths: Tensor
    """[N] int64, the tokens of each sentence, ascending; on the CPU."""

    order: Tensor
    """[N] int64; packed sentence i is the caller's sentence `order[i]`; on the CPU."""

    types: Tensor | None = None
    """[T] int64, 0 in the first and 1 in the second text of a sequence; None: one text each."""

    seeds: Tensor | None = None
    """[N] int64, what each sentence's random numbers follow from (`data/draws.py`)."""

    def __len__(self) -> int:
        return len(self.lengths)

    def on_device(self, x: Tensor) -> Tensor:
        """A tensor on the device of the token ids."""
        return to_device(x, self.ids.device)

    @computed_once
    def cpu_offsets(self) -> Tensor:
        """`offsets`, on the CPU."""
        return self.lengths.cumsum(0) - self.lengths

    @computed_once
    def cpu_segments(self) -> Tensor:
        """`segments`, on the CPU."""
        return torch.repeat_interleave(self.lengths, output_size=len(self.ids))

    @computed_once
    def cpu_positions(self) -> Tensor:
        """`positions`, on the CPU."""
        return torch.arange(len(self.ids)) - self.cpu_offsets[self.cpu_segments]

    @computed_once
    def offsets(self) -> Tensor:
        """[N] int64: the place of each sentence's first token."""
        return self.on_device(self.cpu_offsets)

    @computed_once
    def segments(self) -> Tensor:
        """[T] int64: the number of the packed sentence that each token belongs to."""
        return self.on_device(self.cpu_segments)

    @computed_once
    def positions(self) -> Tensor:
        """[T] int64: each token's place in its sentence, from 0."""
        return self.on_device(self.cpu_positions)

    @computed_once
    def bounds(self) -> Tensor:
        """[N + 1] int32: the place of each sentence's first token, and the end of the last one."""
        return self.on_device(nn.functional.pad(self.lengths.cumsum(0, dtype=torch.int32), (1, 0)))

    @computed_once
    def groups(self) -> tuple[tuple[int, int], ...]:
        """(length, number of sentences of this length), lengths ascending."""
        lengths, counts = self.lengths.unique_consecutive(return_counts=True)
        return tuple(zip(lengths.tolist(), counts.tolist(), strict=True))

    @computed_once
    def longest(self) -> int:
        """Tokens of the longest sentence."""
        return int(self.lengths[-1])

    @computed_once
    def mask(self) -> Tensor:
        """[N, longest] bool: which places hold a token, if all are as long as the longest."""
        return self.on_device(self.lengths[:, None] > torch.arange(self.longest))

    @computed_once
    def _into_padded(self) -> Tensor:
        """[N * longest] int64: the token at each place of `mask`.

        Where there is none, it is the last token of the sentence.
        """
        last = self.lengths[:, None] - 1  # [N, 1]
        steps = torch.minimum(torch.arange(self.longest), last)  # [N, longest]
        return self.on_device((self.cpu_offsets[:, None] + steps).flatten())

    @computed_once
    def _out_of_padded(self) -> Tensor:
        """[T] int64: the place of each token among the N * longest places of `mask`."""
        return self.on_device(self.cpu_segments * self.longest + self.cpu_positions)

    def pad(self, x: Tensor) -> Tensor:
        """[T, ...] -> [N, longest, ...].

        Where there is no token, the last of the sentence stands again.
        """
        return x.index_select(0, self._into_padded).view(len(self), self.longest, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        """[N, longest, ...] -> [T, ...]."""
        return x.flatten(0, 1).index_select(0, self._out_of_padded)

    def restore(self, x: Tensor) -> Tensor:
        """[N, ...] in packed order -> [N, ...] in the caller's order."""
        return x[to_device(self.order.argsort(), x.device)]

    def cut(self, count: int) -> list[Packed]:
        """Cuts the row into `count` parts of about equally many tokens; some can be empty.

        The sentences of a part keep their numbers in `order`.
        """
        if count == 1:
            return [self]
        # Ascending: the part of each sentence.
        part_of = self.cpu_offsets * count // max(1, len(self.ids))  # [N]
        return [self.select(part_of == part)[0] for part in range(count)]

    def select(self, chosen: Tensor) -> tuple[Packed, Tensor]:
        """Takes sentences by [N] bool or [M] numbers; they keep their numbers in `order`.

        `chosen` is on the CPU. Also gives the places of their tokens in this row.
        """
        lengths = self.lengths[chosen]  # [M]
        shift = self.cpu_offsets[chosen] - (lengths.cumsum(0) - lengths)  # [M]
        tokens = torch.repeat_interleave(shift, lengths)  # [tokens of the chosen]
        places = self.on_device(tokens + torch.arange(len(tokens)))
        types = None
        if self.types is not None:
            types = self.types[places]
        seeds = None
        if self.seeds is not None:
            seeds = self.seeds[self.on_device(torch.arange(len(self))[chosen])]
        return Packed(self.ids[places], lengths, self.order[chosen], types, seeds), places

    def places(self, part: Packed) -> Tensor:
        """Where the tokens of a part stand in this row: [tokens of the part] int64, on the CPU."""
        starts = torch.empty_like(self.cpu_offsets)  # [N]
        # The caller's numbers of the sentences are the places in `starts`.
        starts.index_copy_(0, self.order, self.cpu_offsets)
        return starts[part.order][part.cpu_segments] + part.cpu_positions

    def to(self, device: torch.device | str) -> Packed:
        """The same batch on another device."""
        types = None
        if self.types is not None:
            types = to_device(self.types, device)
        seeds = None
        if self.seeds is not None:
            seeds = to_device(self.seeds, device)
        return Packed(to_device(self.ids, device), self.lengths, self.order, types, seeds)


def pack(sentences: Sequence[Sequence[int]], firsts: Sequence[int] | None = None) -> Packed:
    """Packs sentences that are sequences of token ids.

    Where a sequence has two texts, `firsts` has the tokens of the first text of each.
    """
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    ids = torch.tensor(list(chain.from_iterable(sentences)), dtype=torch.long)
    types = None
    if firsts is not None:
        starts = lengths.cumsum(0) - lengths  # [N]
        second_starts = (starts + torch.tensor(firsts)).repeat_interleave(lengths)  # [T]
        is_second = torch.arange(len(ids)) >= second_starts  # [T]
        types = is_second.long()
    return shortest_first(ids, lengths, types)


def concatenate(batches: Sequence[Packed]) -> Packed:
    """Joins batches: in the caller's order, the sentences of batch k follow those of batch k - 1.

    Either all batches have token types or none has; seeds likewise.
    """
    if len(batches) == 1:
        return batches[0]
    start = 0
    orders = []
    types = []
    seeds = []
    for batch in batches:
        orders.append(start + batch.order)
        start += len(batch)
        if batch.types is not None:
            types.append(batch.types)
        if batch.seeds is not None:
            seeds.append(batch.seeds)
    return shortest_first(
        torch.cat([batch.ids for batch in batches]),
        torch.cat([batch.lengths for batch in batches]),
        types=torch.cat(types) if types else None,
        order=torch.cat(orders),
        seeds=torch.cat(seeds) if seeds else None,
    )


def shortest_first(
    ids: Tensor,
    lengths: Tensor,
    types: Tensor | None = None,
    order: Tensor | None = None,
    seeds: Tensor | None = None,
) -> Packed:
    """Packs N sentences whose tokens [T] stand one sentence after another.

    Sentences of equal length keep their order. Sentence i of the arguments is the caller's sentence
    `order[i]`, or i without an order. Lengths and order are on the CPU.
    """
    if order is None:
        order = torch.arange(len(lengths))  # [N]
    packed, _ = Packed(ids, lengths, order, types, seeds).select(lengths.argsort(stable=True))
    return packed


@dataclass(frozen=True)
class Reach:
    """Which tokens of its sentence a token sees."""

    window: int | None = None
    """Those less than this many places away; None for all."""
    causal: bool = False
    """Only itself and those before it."""

    def seen(self, length: int, device: torch.device) -> Tensor | None:
        """[length, length] whether the token of a row sees that of a column; None if all do."""
        window = self.window
        if window is not None and length <= window:
            window = None
        if window is None and not self.causal:
            return None
        place = torch.arange(length, device=device)
        distance = place[:, None] - place  # [length, length]
        seen = torch.ones_like(distance, dtype=torch.bool)
        if window is not None:
            seen &= distance.abs() < window
        if self.causal:
            seen &= distance >= 0
        return seen


ALL = Reach()
"""A token sees all tokens of its sentence."""
