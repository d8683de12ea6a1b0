"""Sentences without padding: the token ids of N sentences in one flat tensor.

Invariant: the sentences of a `Packed` batch stand shortest first. So sentences of equal length are one contiguous
slice, and attention over them is one dense product without a mask. Results come out in this order; `Packed.restore`
brings them back into the caller's order.

Letters of the shape comments, here and in views/ and encoder/: N sentences, T tokens of all sentences, d features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


class computed_once(Generic[T]):
    """`functools.cached_property` without a lock, which all objects share in Python 3.11, and a fork copies locked."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        value = instance.__dict__[self._compute.__name__] = self._compute(instance)  # which is found first from now on
        return value


@dataclass(frozen=True, eq=False)
class Packed:
    """Token ids of N sentences, shortest sentence first."""

    ids: Tensor  # [T] int64, the token ids of all sentences, special tokens included
    lengths: Tensor  # [N] int64, tokens of each sentence, ascending
    order: Tensor  # [N] int64; packed sentence i is the caller's sentence `order[i]`
    types: Tensor | None = None  # [T] int64, 0 in the first and 1 in the second text of a sequence; None: one text each
    seeds: Tensor | None = None  # [N] int64, what the random numbers of each sentence follow from (`data/draws.py`)
    counted: tuple[tuple[int, int], ...] | None = None  # `groups`, counted before the batch moved to a GPU

    def __len__(self) -> int:
        return len(self.lengths)

    @computed_once
    def offsets(self) -> Tensor:
        """[N] int64: the place of each sentence's first token."""
        return self.lengths.cumsum(0) - self.lengths

    @computed_once
    def bounds(self) -> Tensor:
        """[N + 1] int32: the place of each sentence's first token, and the end of the last sentence."""
        return nn.functional.pad(self.lengths.cumsum(0, dtype=torch.int32), (1, 0))

    @computed_once
    def segments(self) -> Tensor:
        """[T] int64: the number of the packed sentence that each token belongs to."""
        # With output_size, a GPU need not wait until the lengths are summed.
        return torch.repeat_interleave(self.lengths, output_size=len(self.ids))

    @computed_once
    def positions(self) -> Tensor:
        """[T] int64: each token's place in its sentence, from 0."""
        return torch.arange(len(self.ids), device=self.ids.device) - self.offsets[self.segments]

    @computed_once
    def groups(self) -> tuple[tuple[int, int], ...]:
        """(length, number of sentences of this length), lengths ascending."""
        return self.counted or _runs(self.lengths)

    @computed_once
    def mask(self) -> Tensor:
        """[N, longest] bool: which places hold a token, where all sentences have the length of the longest."""
        longest, _ = self.groups[-1]
        return self.lengths[:, None] > torch.arange(longest, device=self.ids.device)

    @computed_once
    def _padded_places(self) -> Tensor:
        """[T] int64: the place of each token among the N * longest places of `mask`."""
        longest, _ = self.groups[-1]
        return self.segments * longest + self.positions

    def pad(self, x: Tensor, padding: int = 0) -> Tensor:
        """[T, ...] -> [N, longest, ...]."""
        longest, _ = self.groups[-1]
        padded = x.new_full((len(self) * longest, *x.shape[1:]), padding).index_copy(0, self._padded_places, x)
        return padded.view(len(self), longest, *x.shape[1:])

    def unpad(self, x: Tensor) -> Tensor:
        """[N, longest, ...] -> [T, ...]."""
        return x.flatten(0, 1).index_select(0, self._padded_places)

    @property
    def rank(self) -> Tensor:
        """[N] int64: each packed sentence's place among the caller's numbers of these sentences."""
        return self.order.argsort().argsort()

    def restore(self, x: Tensor) -> Tensor:
        """[N, ...] in packed order -> [N, ...] in the caller's order."""
        return x[self.order.argsort()]

    def cut(self, count: int) -> list[Packed]:
        """Cuts the row into `count` parts of about equally many tokens; some can be empty.

        The sentences of a part keep their numbers in `order`.
        """
        if count == 1:
            return [self]
        lengths = torch.tensor(self.groups)[:, 0].repeat_interleave(torch.tensor(self.groups)[:, 1])  # [N], on the CPU
        part_of = (lengths.cumsum(0) - lengths) * count // max(1, len(self.ids))  # [N], ascending
        sentences = part_of.bincount(minlength=count).tolist()
        of_parts = lengths.split(sentences)
        tokens = [int(of_part.sum()) for of_part in of_parts]
        columns = (self.ids, tokens), (self.lengths, sentences), (self.order, sentences), (self.types, tokens)
        parts = [
            (None,) * count if column is None else column.split(sizes)
            for column, sizes in (*columns, (self.seeds, sentences))
        ]
        return [Packed(*part) for part in zip(*parts, map(_runs, of_parts), strict=True)]

    def select(self, chosen: Tensor) -> Packed:
        """The chosen sentences, [N] bool; they keep their numbers in `order`."""
        tokens = chosen[self.segments]  # [T]
        types, seeds = (None if x is None else x[by] for x, by in ((self.types, tokens), (self.seeds, chosen)))
        return Packed(self.ids[tokens], self.lengths[chosen], self.order[chosen], types, seeds)

    def places(self, part: Packed) -> Tensor:
        """Where the tokens of a part stand in this row: [tokens of the part] int64."""
        starts = torch.empty_like(self.offsets).index_copy(0, self.order, self.offsets)  # [N], by the caller's number
        return starts[part.order][part.segments] + part.positions

    def to(self, device: torch.device | str) -> Packed:
        """The same batch on another device; the copy to a GPU is made from pinned memory and asynchronous."""
        device = torch.device(device)

        def move(x: Tensor) -> Tensor:
            return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" and x.is_cpu else x.to(device)

        types, seeds = (None if x is None else move(x) for x in (self.types, self.seeds))
        # Counted here, because counting on a GPU would wait for the copy.
        return Packed(move(self.ids), move(self.lengths), move(self.order), types, seeds, self.groups)


def pack(sentences: Sequence[Sequence[int]]) -> Packed:
    """Packs sentences that are sequences of token ids."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    ids = torch.tensor([token for sentence in sentences for token in sentence], dtype=torch.long)
    return shortest_first(ids, lengths)


def concatenate(batches: Sequence[Packed]) -> Packed:
    """Joins batches: in the caller's order, the sentences of batch k follow those of batch k - 1.

    Either all batches have token types or none has; seeds likewise.
    """
    if len(batches) == 1:
        return batches[0]
    starts = accumulate(map(len, batches[:-1]), initial=0)
    types = [batch.types for batch in batches if batch.types is not None]
    seeds = [batch.seeds for batch in batches if batch.seeds is not None]
    counts: Counter[int] = Counter()
    for batch in batches:
        counts.update(dict(batch.counted or ()))
    return shortest_first(
        torch.cat([batch.ids for batch in batches]),
        torch.cat([batch.lengths for batch in batches]),
        torch.cat(types) if types else None,
        torch.cat([start + batch.order for start, batch in zip(starts, batches, strict=True)]),
        torch.cat(seeds) if seeds else None,
        tuple(sorted(counts.items())) or None,
    )


def shortest_first(
    ids: Tensor,
    lengths: Tensor,
    types: Tensor | None = None,
    order: Tensor | None = None,
    seeds: Tensor | None = None,
    counted: tuple[tuple[int, int], ...] | None = None,
) -> Packed:
    """Packs N sentences whose tokens [T] stand one sentence after another; those of equal length keep their order.

    Sentence i of the arguments is the caller's sentence `order[i]`, or i without an order.
    """
    order = torch.arange(len(lengths), device=lengths.device) if order is None else order  # [N]
    offsets = lengths.cumsum(0) - lengths  # [N]
    lengths, place = lengths.sort(stable=True)  # [N], [N]
    new_offsets = lengths.cumsum(0) - lengths  # [N]
    # Token t of a sentence moves from (old offset + position) to (new offset + position).
    shift = torch.repeat_interleave(offsets[place] - new_offsets, lengths, output_size=len(ids))  # [T]
    source = torch.arange(len(ids), device=ids.device) + shift  # [T]
    types, seeds = (None if x is None else x[by] for x, by in ((types, source), (seeds, place)))
    return Packed(ids[source], lengths, order[place], types, seeds, counted)


def near_tokens(length: int, window: int | None, device: torch.device) -> Tensor | None:
    """Whether the tokens of a row see each other through a window, [length, length]; None if all do."""
    if window is None or length <= window:
        return None
    place = torch.arange(length, device=device)
    return (place[:, None] - place).abs() < window


def _runs(lengths: Tensor) -> tuple[tuple[int, int], ...]:
    """(length, number of sentences of this length) of ascending lengths [N]."""
    return tuple((length, len(list(run))) for length, run in groupby(lengths.tolist()))
