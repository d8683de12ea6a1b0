"""Which pairs of a user's sentences to score, so that few scores say much about encoders.

Two pairs of the same similarity say nothing of how an encoder ranks them, and random pairs of a corpus nearly all have
nothing in common. So the chosen pairs are spread evenly over the range of the encoders' cosines. Among pairs of about
the same cosine, those are taken on whose place the encoders disagree most: an answer there decides between them.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from isotune.data import ScoredPair, ScoredPairs
from isotune.evaluation import SentenceEncoder, cosine_similarities
from isotune.evaluation.copies import distinct_texts
from isotune.evaluation.intervals import resampled_correlations
from isotune.evaluation.probes import Integers
from isotune.evaluation.vectors import Floats, nearest, sentence_vectors, unit_length

SENTENCES = 5_000  # a random sample of longer text
NEIGHBOURS = (
    10  # of each sentence: so many of its nearest sentences are candidates, and as many others
)


def choose_pairs(
    sentences: Sequence[str], encoders: Sequence[SentenceEncoder], count: int, seed: int = 0
) -> list[tuple[str, str]]:
    """At most `count` pairs of sentences, in an order whose every first part is spread over the similarities."""
    random = np.random.default_rng(seed)
    texts = distinct_texts(sentences)
    if len(texts) > SENTENCES:
        texts = [texts[i] for i in np.sort(random.choice(len(texts), SENTENCES, replace=False))]
    if len(texts) < 2:
        return []
    vectors = [
        unit_length(sentence_vectors(each.encode, texts, "the text")) for each in encoders
    ]  # of each: [N, d]
    pairs = _candidates(vectors[0], random)  # [C, 2]
    cosines = np.stack(
        [np.einsum("cd,cd->c", of[pairs[:, 0]], of[pairs[:, 1]]) for of in vectors]
    )  # [E, C]
    return [(texts[pairs[i, 0]], texts[pairs[i, 1]]) for i in choose(cosines, pairs, count, random)]


def choose(cosines: Floats, pairs: Integers, count: int, random: np.random.Generator) -> list[int]:
    """At most `count` of the C candidates `pairs` [C, 2], by the cosines [E, C] that E encoders give them.

    The range of the mean cosine is cut into `count` intervals of equal width. The intervals take turns in random order;
    each gives the candidate on whose rank the encoders disagree most. No sentence is taken twice.

    The nearest pair comes first, to show what the scale is about. This favours no encoder, wherever a session ends: the
    order follows from the mean cosine, before any score. One pair is moved, because near pairs alone have close scores.
    """
    scaled = cosines - cosines.min(1, keepdims=True)
    scaled = (scaled / scaled.max(1, keepdims=True).clip(1e-12)).mean(0)  # [C]
    disagreement = rankdata(cosines, axis=1).std(0)  # [C], of the candidates' ranks
    intervals: list[list[int]] = [[] for _ in range(count)]
    for i in np.lexsort(
        (random.random(len(pairs)), disagreement)
    ):  # the best of each interval comes last
        intervals[min(int(scaled[i] * count), count - 1)].append(int(i))
    chosen: list[int] = []
    taken: set[int] = set()
    while any(intervals) and len(chosen) < count:
        for place in random.permutation(count):
            while intervals[place]:
                i = intervals[place].pop()
                if taken.isdisjoint(pairs[i].tolist()):
                    taken.update(pairs[i].tolist())
                    chosen.append(i)
                    break
    chosen = chosen[:count]
    highest = max(scaled[chosen], default=0.0)
    return sorted(chosen, key=lambda i: scaled[i] < highest)  # the others stay in their order


def surely_best(labels: Sequence[ScoredPair], encoders: Sequence[SentenceEncoder]) -> int | None:
    """The encoder ahead of all others by a 99 % interval, because a session asks several times; None if none is."""
    first, second, gold = map(list, zip(*labels, strict=True))
    pairs = ScoredPairs("labels", "", first, second, np.array(gold), ["labels"] * len(labels))
    scores = np.stack(
        [resampled_correlations(pairs, cosine_similarities(each, pairs)) for each in encoders]
    )  # [E, B]
    best = int(scores.mean(1).argmax())
    leads = scores[best] - np.delete(scores, best, 0)  # [E - 1, B]
    return best if (np.quantile(leads, 0.005, axis=1) > 0).all() else None


def _candidates(vectors: Floats, random: np.random.Generator) -> Integers:
    """Pairs [C, 2] of different sentences: each with its nearest sentences, and with as many random ones."""
    first = np.arange(len(vectors))[:, None]  # [N, 1]
    count = min(NEIGHBOURS, len(vectors) - 1)
    _, near = nearest(vectors, vectors, count + 1)  # a sentence is the nearest to itself
    others = (first + random.integers(1, len(vectors), (len(vectors), count))) % len(
        vectors
    )  # [N, count]
    second = np.concatenate([near, others], 1)
    pairs = np.stack([np.broadcast_to(first, second.shape), second], -1).reshape(-1, 2)
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], 1), axis=0)
