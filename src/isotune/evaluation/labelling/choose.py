"""Which pairs of a user's sentences to score, so that few scores say much about encoders.

Two pairs of the same similarity say nothing of how an encoder ranks them, and random pairs of a
corpus nearly all have nothing in common. So the chosen pairs are spread evenly over the range of
the encoders' cosines. Among pairs of about the same cosine, those are taken on whose place the
encoders disagree most: an answer there decides between them.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from isotune.data import ScoredPair, ScoredPairs
from isotune.evaluation import SentenceEncoder, correlations, cosine_similarities
from isotune.evaluation.copies import distinct_texts
from isotune.evaluation.intervals import resampled_correlations
from isotune.evaluation.probes import Integers
from isotune.evaluation.vectors import Floats, nearest, sentence_vectors, unit_length

SENTENCES = 5_000
"""Of more sentences, a random sample is used."""

CHOICES = 10
"""So many choices of pairs say how alike encoders are on chosen pairs."""

NEIGHBOURS = 10
"""So many of the nearest sentences of each are candidates, and as many others."""


class EncodedTexts(NamedTuple):
    """Different sentences, and the vectors [N, d] of each encoder, of length 1."""

    texts: Sequence[str]
    vectors: Sequence[Floats]


def encode_texts(
    sentences: Sequence[str], encoders: Sequence[SentenceEncoder], seed: int = 0
) -> EncodedTexts:
    """Encodes the different ones of the sentences; of more than `SENTENCES`, a sample of these."""
    texts = distinct_texts(sentences)
    if len(texts) > SENTENCES:
        drawn = np.random.default_rng(seed).choice(len(texts), SENTENCES, replace=False)
        texts = [texts[i] for i in np.sort(drawn)]
    vectors = []
    for encoder in encoders:
        encoded = sentence_vectors(encoder.encode, texts, "the text")
        vectors.append(unit_length(encoded))
    return EncodedTexts(texts, vectors)


def chosen_pairs(encoded: EncodedTexts, count: int, seed: int = 0) -> list[tuple[str, str]]:
    """At most `count` pairs of the texts.

    Every first part of their order is spread over the similarities.
    """
    if len(encoded.texts) < 2:
        return []
    pairs, _ = _chosen(encoded.vectors, count, np.random.default_rng(seed))
    return [(encoded.texts[first], encoded.texts[second]) for first, second in pairs]


def chosen_agreement(vectors: Sequence[Floats], count: int) -> float:
    """How alike the first encoder and the last are on the pairs that `chosen_pairs` gives.

    It is the mean of Spearman's correlation of their cosines over `CHOICES` choices of `count`
    pairs, because that of a single choice depends much on the choice. The encoders have vectors
    [N, d] of N different sentences, of length 1. Where the cosines of one are all equal, the
    correlation counts as 0.
    """
    found = []
    for seed in range(CHOICES):
        _, cosines = _chosen(vectors, count, np.random.default_rng(seed))
        both = correlations(cosines[0], cosines[-1])
        spearman = 0.0
        if both is not None:
            spearman, _ = both
        found.append(spearman)
    return fmean(found)


def _chosen(
    vectors: Sequence[Floats], count: int, random: np.random.Generator
) -> tuple[Integers, Floats]:
    """The chosen pairs [P, 2] of sentences, and the cosines [E, P] of E encoders.

    The vectors [N, d] of each encoder have length 1.
    """
    pairs = _candidates(vectors[0], random)  # [C, 2]
    first, second = pairs.T
    cosines = np.stack([np.einsum("cd,cd->c", rows[first], rows[second]) for rows in vectors])
    chosen = choose(cosines, pairs, count, random)
    return pairs[chosen], cosines[:, chosen]


def choose(cosines: Floats, pairs: Integers, count: int, random: np.random.Generator) -> list[int]:
    """At most `count` of C candidates [C, 2], by the cosines [E, C] that E encoders give them.

    The range of the mean cosine is cut into `count` intervals of equal width. The intervals take
    turns in random order; each gives the candidate on whose rank the encoders disagree most. No
    sentence is taken twice.

    The nearest pair comes first, to show what the scale is about. This favours no encoder, wherever
    a session ends: the order follows from the mean cosine, before any score. One pair is moved,
    because near pairs alone have close scores.
    """
    scaled = cosines - cosines.min(1, keepdims=True)
    scaled = (scaled / scaled.max(1, keepdims=True).clip(1e-12)).mean(0)  # [C]
    disagreement = rankdata(cosines, axis=1).std(0)  # [C], of the candidates' ranks
    intervals: list[list[int]] = [[] for _ in range(count)]
    # The best candidate of each interval comes last.
    for i in np.lexsort((random.random(len(pairs)), disagreement)):
        place = min(int(scaled[i] * count), count - 1)
        intervals[place].append(int(i))
    chosen: list[int] = []
    taken: set[int] = set()
    while any(intervals) and len(chosen) < count:
        for place in random.permutation(count):
            best = _take_best(intervals[place], pairs, taken)
            if best is not None:
                chosen.append(best)
    chosen = chosen[:count]
    highest = max(scaled[chosen], default=0.0)
    # The nearest pair comes first, and the others stay in their order.
    return sorted(chosen, key=lambda i: scaled[i] < highest)


def _take_best(interval: list[int], pairs: Integers, taken: set[int]) -> int | None:
    """Takes the last candidate of whose sentences none is taken, and those behind it.

    Returns None if there is no such candidate.
    """
    while interval:
        candidate = interval.pop()
        sentences = pairs[candidate].tolist()
        if taken.isdisjoint(sentences):
            taken.update(sentences)
            return candidate
    return None


def surely_best(labels: Sequence[ScoredPair], encoders: Sequence[SentenceEncoder]) -> int | None:
    """The encoder ahead of all others by a 99 % interval, because a session asks several times.

    It is None if no encoder is.
    """
    pairs = _columns(labels)
    samples = []
    for encoder in encoders:
        cosines = cosine_similarities(encoder, pairs)
        samples.append(resampled_correlations(pairs, cosines))
    scores = np.stack(samples)  # [E, B]
    best = int(scores.mean(1).argmax())
    leads = scores[best] - np.delete(scores, best, 0)  # [E - 1, B]
    lowest = np.quantile(leads, 0.005, axis=1)  # [E - 1]
    return best if (lowest > 0).all() else None


def _columns(labels: Sequence[ScoredPair]) -> ScoredPairs:
    """Scored pairs as columns."""
    first, second, gold = zip(*labels, strict=True)
    return ScoredPairs(
        name="labels",
        split="",
        sentence1=list(first),
        sentence2=list(second),
        scores=np.array(gold),
        subsets=["labels"] * len(labels),
    )


def _candidates(vectors: Floats, random: np.random.Generator) -> Integers:
    """Pairs [C, 2] of different sentences.

    Each sentence is paired with its nearest ones, and with as many random ones.
    """
    size = len(vectors)
    first = np.arange(size)[:, None]  # [N, 1]
    count = min(NEIGHBOURS, size - 1)
    # A sentence is the nearest to itself.
    _, near = nearest(vectors, vectors, count + 1)  # [N, count + 1]
    others = (first + random.integers(1, size, (size, count))) % size  # [N, count]
    second = np.concatenate([near, others], 1)
    pairs = np.stack([np.broadcast_to(first, second.shape), second], -1).reshape(-1, 2)
    different = pairs[pairs[:, 0] != pairs[:, 1]]
    return np.unique(np.sort(different, 1), axis=0)
