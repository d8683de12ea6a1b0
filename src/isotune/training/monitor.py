"""The monitor measures the encoder without labels: does its space collapse, and how good is the encoder probably?

A fixed probe of training sentences is encoded at every evaluation: the sentences; the sentences with some tokens cut
off, each time the same tokens; and for each sentence its nearest neighbour by words in the corpus. So two evaluations
differ by the encoder alone.

Contrastive learning should spread the vectors: their mean cosine falls and their effective rank rises. The opposite is
a collapse, which the loss alone can hide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from torch import Generator

from isotune.data.packed import Packed
from isotune.data.tokens import TokenStore
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation.geometry import effective_rank, mean_cosine
from isotune.evaluation.unlabelled import measure_unlabelled
from isotune.views.augmentation import TokenCutoff

PROBE_SENTENCES = 256
NEIGHBOURS_AMONG = 10_000  # sentences that a neighbour by words is looked for in
VIEW = TokenCutoff(0.2)


class Probe(NamedTuple):
    """N training sentences."""

    sentences: Packed
    neighbours: Packed  # for each sentence, the nearest one by words among those with other words

    @classmethod
    def of(cls, store: TokenStore) -> Probe:
        """A sample of the rows' first texts, spread over the corpus, whose first rows may all be from one place."""
        pool = _spread(len(store), NEIGHBOURS_AMONG)
        places = _spread(len(pool), PROBE_SENTENCES)
        weights = _tf_idf(store.pack_sequences(pool * store.columns))
        similar = (weights[places] @ weights.T).toarray()  # [N, pool]
        similar[similar > 0.999] = -1  # the sentence itself, and its repeats
        nearest = similar.argmax(1)
        return cls(*(store.pack_sequences(pool[which] * store.columns) for which in (places, nearest)))


class Measurement(NamedTuple):
    """What the monitor measures at an evaluation."""

    space: dict[str, float]  # mean_cosine between different sentences (1 is a point); effective_rank, directions in use
    criteria: dict[str, float]  # those of `evaluation.unlabelled`; higher is better


class Monitor:
    """Measures the probe, and compares it with the first measurement."""

    def __init__(self, probe: Probe, start: dict[str, float] | None = None) -> None:
        self.probe = probe
        self.start = start  # the space at the first measurement

    @torch.no_grad()
    def measure(self, encoder: Encoder) -> Measurement:
        """Encodes the probe and measures its vectors.

        Raises:
            InputError: the vectors aren't finite.
        """
        encoder.eval()
        sentences, neighbours = (tokens.to(encoder.device) for tokens in self.probe)
        vectors = encoder(sentences)  # [N, d]
        views = encoder(sentences, VIEW, Generator(encoder.device).manual_seed(0))  # [N, d]
        others = encoder(neighbours)  # [N, d]
        if not torch.cat([vectors, views, others]).isfinite().all():
            raise InputError("the encoder gives vectors with NaN or infinite values")
        space = {"mean_cosine": mean_cosine(vectors), "effective_rank": effective_rank(vectors)}
        self.start = self.start or space
        return Measurement(space, measure_unlabelled(vectors, views, others))

    def warning(self, space: dict[str, float]) -> str | None:
        """What to tell the user, if the space has closed up since the start."""
        cosine, rank = space["mean_cosine"], space["effective_rank"]
        start = self.start or space
        if rank < start["effective_rank"] / 2:
            sign = f"effective rank fell from {start['effective_rank']:.1f} to {rank:.1f}"
        elif cosine > max(0.95, start["mean_cosine"] + 0.01):
            sign = f"mean cosine rose from {start['mean_cosine']:.2f} to {cosine:.2f}"
        else:
            return None
        return (
            f"the space is collapsing: the {sign} on {len(self.probe.sentences)} sentences; try a lower learning_rate"
        )


def _spread(n: int, most: int) -> NDArray[np.int64]:
    """At most `most` of the numbers below n, at equal distances."""
    return np.linspace(0, n - 1, min(most, n)).astype(np.int64)


def _tf_idf(tokens: Packed) -> csr_array:
    """The words' weights in each of N sentences, [N, vocabulary], of length 1. A word of all sentences weighs 0."""
    n, words = len(tokens), int(tokens.ids.max()) + 1
    places = tokens.order[tokens.segments].numpy(), tokens.ids.numpy()
    counts = csr_array((np.ones(len(tokens.ids)), places), (n, words))  # repeats are summed
    counts.data = 1 + np.log(counts.data)
    sentence_counts = np.bincount(counts.indices, minlength=words)  # [vocabulary], sentences with the word
    weights = counts @ diags_array(np.log(n / sentence_counts.clip(1)))
    lengths = np.sqrt(weights.power(2).sum(1)).clip(1e-12)
    return csr_array(diags_array(1 / lengths) @ weights)
