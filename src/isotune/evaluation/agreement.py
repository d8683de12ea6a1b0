"""How much an encoder agrees with teachers about which sentences are similar.

The sentences are held out: the encoder was not trained on them. Agreement says nothing about
whether the teachers are right.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotune.encoder.encoder import Encoder
from isotune.evaluation.costs import WARMED
from isotune.evaluation.examples import PairExamples, pair_examples
from isotune.evaluation.intervals import interval, resampled_over_sentences
from isotune.evaluation.results import Cost
from isotune.evaluation.run_results import Agreement
from isotune.evaluation.sts import correlations
from isotune.evaluation.vectors import (
    Floats,
    SearchEncoder,
    nearest,
    sentence_vectors,
    unit_length,
)

FEWEST = 10
"""With fewer held-out sentences, nothing is compared."""

MOST = 500
"""So many held-out sentences are compared at most: a large teacher encodes them in seconds."""

NEAR = 5
"""The pairs of each sentence with those that the teachers find nearest."""

RANDOM = 5
"""The pairs of each sentence with others at random."""


@dataclass(frozen=True)
class Together:
    """Several encoders as one: the cosine of two of its vectors is the mean of their cosines."""

    encoders: Sequence[SearchEncoder]

    def encode(self, sentences: Sequence[str], /) -> Floats:
        """The vectors [n, d] of n sentences, of length 1."""
        return _joined([each.encode(sentences) for each in self.encoders])

    def encode_query(self, sentences: Sequence[str], /) -> Floats:
        """The vectors [n, d] of n questions, of length 1."""
        return _joined([each.encode_query(sentences) for each in self.encoders])

    def encode_document(self, sentences: Sequence[str], /) -> Floats:
        """The vectors [n, d] of n documents, of length 1."""
        return _joined([each.encode_document(sentences) for each in self.encoders])


def _joined(vectors: Sequence[Floats]) -> Floats:
    """The vectors [n, sum of d] of length 1 of encoders whose vectors are [n, d]."""
    return unit_length(np.hstack([unit_length(each) for each in vectors]))


@dataclass(frozen=True)
class InIndex:
    """An encoder that asks in the index of another one: only documents are encoded by the other."""

    asks: SearchEncoder
    made_by: SearchEncoder

    def encode(self, sentences: Sequence[str], /) -> Floats:
        """The vectors [n, d] of n sentences by the encoder that asks."""
        return self.asks.encode(sentences)

    def encode_query(self, sentences: Sequence[str], /) -> Floats:
        """The vectors [n, d] of n questions."""
        return self.asks.encode_query(sentences)

    def encode_document(self, sentences: Sequence[str], /) -> Floats:
        """The vectors [n, d] of n documents, by the encoder of the index."""
        return self.made_by.encode_document(sentences)


@dataclass(frozen=True)
class HeldOut:
    """Held-out sentences as an encoder sees them, or as several teachers do together."""

    vectors: Floats
    """[n, d], of length 1."""

    cost: Cost


def encode_held_out(encoders: Sequence[Encoder], sentences: Sequence[str]) -> HeldOut:
    """Encodes sentences by an encoder, or by several together, and measures how long that takes.

    The cosine of two of the vectors is the mean of the encoders' cosines.
    """
    together = Together(encoders)
    # The first call is slower.
    together.encode(sentences[:WARMED])
    began = time.monotonic()
    vectors = sentence_vectors(together.encode, sentences, "the held-out sentences")
    seconds = time.monotonic() - began
    weights = 0
    for encoder in encoders:
        weights += sum(parameter.numel() for parameter in encoder.parameters())
    cost = Cost(weights=weights, sentences_per_second=len(sentences) / max(seconds, 1e-9))
    return HeldOut(vectors, cost)


class PairCosines(NamedTuple):
    """The cosines [N] of the pairs of held-out sentences by which agreement is measured."""

    pairs: NDArray[np.int64]
    """The numbers [N, 2] of the sentences."""

    teachers: Floats
    before: Floats
    after: Floats


def pair_cosines(
    teachers: HeldOut, before: HeldOut, after: HeldOut, *, in_index: bool = False
) -> PairCosines:
    """Compares pairs of sentences by the teachers, the start and the kept encoder.

    If `in_index`, the kept encoder has the first sentence of a pair, and the teachers the second.
    """
    pairs = choose_pairs(teachers.vectors)
    others = after.vectors
    if in_index:
        others = teachers.vectors
    return PairCosines(
        pairs,
        teachers=_cosines(teachers.vectors, teachers.vectors, pairs),
        before=_cosines(before.vectors, before.vectors, pairs),
        after=_cosines(after.vectors, others, pairs),
    )


def compare_agreement(cosines: PairCosines, teachers: HeldOut, after: HeldOut) -> Agreement:
    """The agreement with the teachers, of the start and of the kept encoder."""
    pairs, taught, old, new = cosines
    count = len(teachers.vectors)
    low, high = interval(
        resampled_over_sentences(taught, new, pairs, count)
        - resampled_over_sentences(taught, old, pairs, count)
    )
    return Agreement(
        sentences=count,
        pairs=len(pairs),
        before=_spearman(taught, old),
        after=_spearman(taught, new),
        low=low,
        high=high,
        teachers=teachers.cost,
        student=after.cost,
    )


def taught_examples(cosines: PairCosines, sentences: Sequence[str]) -> PairExamples:
    """Examples of the pairs by which agreement is measured; the sentences are those held out."""
    texts = [(sentences[first], sentences[second]) for first, second in cosines.pairs]
    return pair_examples(texts, cosines.teachers, cosines.before, cosines.after)


def _spearman(taught: Floats, cosines: Floats) -> float:
    """Spearman's correlation of two encoders' cosines [N]; 0 if those of one are all equal."""
    found = correlations(taught, cosines)
    if found is None:
        return 0.0
    spearman, _ = found
    return spearman


def choose_pairs(vectors: Floats, seed: int = 0) -> NDArray[np.int64]:
    """The numbers [N, 2] of the sentences of each pair, from the teachers' vectors [n, d].

    Each sentence has pairs with its nearest sentences and with others at random. No pair stands
    there twice.
    """
    count = len(vectors)
    _, near = nearest(vectors, vectors, NEAR + 1)  # [n, k], with the sentence itself
    random = np.random.default_rng(seed).integers(count, size=(count, RANDOM))
    others = np.hstack([near, random])  # [n, m]
    ends = np.stack([np.repeat(np.arange(count), others.shape[1]), others.ravel()], axis=1)
    different = ends[ends[:, 0] != ends[:, 1]]
    return np.unique(np.sort(different, axis=1), axis=0)


def _cosines(firsts: Floats, seconds: Floats, pairs: NDArray[np.int64]) -> Floats:
    """The cosines [N] of pairs [N, 2] of vectors of length 1: one of each array [n, d]."""
    products = firsts[pairs[:, 0]] * seconds[pairs[:, 1]]
    return np.clip(products.sum(1), -1, 1)
