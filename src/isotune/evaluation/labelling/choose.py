"""Which pairs of a user's sentences to score, so that few scores say much about encoders.

Two pairs of the same similarity say nothing of how an encoder ranks them, and random pairs of a
corpus nearly all have nothing in common. So the chosen pairs are spread evenly over the range of
the encoders' cosines. Among pairs of about the same cosine, those are taken on whose place the
encoders disagree most: an answer there decides between them.
"""

from collections.abc import Sequence

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

NEIGHBOURS = 10
"""So many of the nearest sentences of each are candidates, and as many others."""


def choose_pairs(
    sentences: Sequence[str], encoders: Sequence[SentenceEncoder], count: int, seed: int = 0
) -> list[tuple[str, str]]:
    """At most `count` pairs of sentences.

    Every first part of their order is spread over the similarities.
    """
    random = np.random.default_rng(seed)
    texts = distinct_texts(sentences)
    if len(texts) > SENTENCES:
        drawn = random.choice(len(texts), SENTENCES, replace=False)
        texts = [texts[i] for i in np.sort(drawn)]
    if len(texts) < 2:
        return []
    vectors = []
    for encoder in encoders:
        encoded = sentence_vectors(encoder.encode, texts, "the text")
        vectors.append(unit_length(encoded))  # [N, d]
    pairs = _candidates(vectors[0], random)  # [C, 2]
    first, second = pairs.T
    cosines = [np.einsum("cd,cd->c", rows[first], rows[second]) for rows in vectors]
    chosen = choose(np.stack(cosines), pairs, count, random)
    return [(texts[first[i]], texts[second[i]]) for i in chosen]


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


def agreement(
    pairs: Sequence[tuple[str, str]], first: SentenceEncoder, second: SentenceEncoder
) -> float:
    """Spearman's correlation of the cosines that two encoders give to pairs.

    It is 0 if the cosines of the first are all equal.
    """
    # The score is not used.
    columns = _columns([ScoredPair(*pair, score=0.0) for pair in pairs])
    found = correlations(cosine_similarities(first, columns), cosine_similarities(second, columns))
    if found is None:
        return 0.0
    spearman, _ = found
    return spearman


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
