"""Packing: shortest first, nothing lost, the caller's order back."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotune.data.packed import Packed, concatenate, pack

batches = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), min_size=1, max_size=12)


def unpack(tokens: Packed) -> list[list[int]]:
    """The sentences in the caller's order."""
    parts = tokens.ids.split(tokens.lengths.tolist())
    return [parts[i].tolist() for i in tokens.order.argsort().tolist()]


@given(batches)
@settings(deadline=None)
def test_sentences_come_back_and_lie_shortest_first(sentences: list[list[int]]) -> None:
    tokens = pack(sentences)
    assert unpack(tokens) == sentences
    assert tokens.lengths.tolist() == sorted(map(len, sentences))
    assert [length for length, n in tokens.groups for _ in range(n)] == tokens.lengths.tolist()
    assert tokens.positions.tolist() == [
        i for length in tokens.lengths.tolist() for i in range(length)
    ]
    assert tokens.ids[tokens.offsets].tolist() == [
        part[0].item() for part in tokens.ids.split(tokens.lengths.tolist())
    ]
    assert tokens.segments.bincount().tolist() == tokens.lengths.tolist()
    assert tokens.bounds.tolist() == [*tokens.offsets.tolist(), len(tokens.ids)]


@given(st.lists(batches, min_size=1, max_size=4))
@settings(deadline=None)
def test_concatenation_is_packing_everything_at_once(parts: list[list[list[int]]]) -> None:
    together = concatenate([pack(part) for part in parts])
    whole = pack([sentence for part in parts for sentence in part])
    assert unpack(together) == unpack(whole)
    assert torch.equal(together.lengths, whole.lengths)


def test_a_batch_on_another_device_is_the_same_batch() -> None:
    tokens = pack([[1, 2, 3], [4], [5, 6]])
    moved = tokens.to("meta")
    assert moved.ids.shape == tokens.ids.shape
    assert moved.groups == ((1, 1), (2, 1), (3, 1))  # known without asking the device
    assert moved.segments.device.type == moved.positions.device.type == "meta"
    assert unpack(tokens.to("cpu")) == unpack(tokens)
