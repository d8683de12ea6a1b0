"""Pairs with scores, encoders with known vectors, and hidden states of single sentences."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from isotune.data import ScoredPairs, read_scored_pairs
from isotune.encoder.encoder import Encoder


@dataclass
class Lookup:
    """An encoder whose vectors are given."""

    vectors: Mapping[str, Sequence[float]]

    def encode(self, sentences: Sequence[str], /) -> NDArray[np.float64]:
        return np.array([self.vectors[sentence] for sentence in sentences], float)


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """By the definition; 0 with a zero vector."""
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def made_pairs(scores: Sequence[float], name: str = "made") -> ScoredPairs:
    """Pairs "a0" and "b0", "a1" and "b1", ..."""
    first, second = ([f"{side}{i}" for i in range(len(scores))] for side in "ab")
    return ScoredPairs(name, "test", first, second, np.array(scores, float), [name] * len(scores))


def angled(angles: Sequence[float]) -> Lookup:
    """The encoder for `made_pairs` that has a pair's vectors at this angle, in radians."""
    vectors = {f"a{i}": (2.0, 0.0) for i in range(len(angles))}
    return Lookup(
        vectors | {f"b{i}": (math.cos(angle), math.sin(angle)) for i, angle in enumerate(angles)}
    )


@pytest.fixture
def scored(pairs: Path) -> ScoredPairs:
    return read_scored_pairs(pairs)


@pytest.fixture
def states(
    tiny_model: Path, encoder: Encoder
) -> Callable[[str], tuple[list[int], list[torch.Tensor]]]:
    """A sentence's token ids and each layer's hidden states [length, d], by transformers alone."""
    model = AutoModel.from_pretrained(tiny_model, add_pooling_layer=False).eval()

    @cache
    @torch.no_grad()
    def look(sentence: str) -> tuple[list[int], list[torch.Tensor]]:
        ids = encoder.tokenizer(sentence)["input_ids"]
        output = model(torch.tensor([ids]), output_hidden_states=True)
        return ids, [state[0].double() for state in output.hidden_states]

    return look
