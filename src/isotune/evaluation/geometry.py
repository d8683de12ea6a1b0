"""How sentence vectors lie in their space: the measures, and the task that takes them.

Every measure first scales the vectors to length 1, because encoders are used by their cosines. The
measures are exact: they go over all vectors, or all pairs of vectors, in blocks, so the memory they
need beside the vectors is bounded.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from isotune.data import DATASETS, LabelledPair, read, read_scored_pairs
from isotune.errors import InputError
from isotune.evaluation.intervals import WithoutRows
from isotune.evaluation.results import GeometryResult, geometry_scores
from isotune.evaluation.vectors import (
    NO_ROWS,
    Floats,
    SentenceEncoder,
    sentence_vectors,
    to_float64_device,
)

ROWS = 1024
"""The vectors in a block, so that a block and the products of two stay in the caches."""

POSITIVE = 0.8
"""A scored pair is positive from this share of the greatest score on.

It is 4 of 5, as on STS-B in SimCSE (section 3).
"""


def alignment(first: Tensor, second: Tensor) -> float:
    """The mean squared distance between the vectors [N, d] of N positive pairs; lower is better.

    Wang and Isola, "Understanding contrastive representation learning through alignment and
    uniformity on the hypersphere" (2020), with alpha = 2.
    """
    squared = (normalize(first, dim=-1) - normalize(second, dim=-1)).square().sum(-1)  # [N]
    return float(squared.mean(dtype=torch.float64))


def uniformity(vectors: Tensor) -> float:
    """The log of the mean of exp(-2 D^2) over the distances D of all pairs of vectors [N, d].

    Lower is better.

    Wang and Isola (2020), with t = 2. It is 0 if all vectors are the same, and about -4 at best.
    """
    blocks = normalize(vectors, dim=-1).split(ROWS)
    total = 0.0
    for i, rows in enumerate(blocks):
        for j, columns in enumerate(blocks[i:]):
            # For unit vectors, D^2 is 2 - 2 cos.
            kernel = (rows @ columns.T).sub_(1).mul_(4).exp_()
            if j == 0:
                # A block with itself has each pair twice, and each vector with itself.
                kernel.triu_(1)
            total += float(kernel.sum(dtype=torch.float64))
    n = len(vectors)
    return math.log(total / (n * (n - 1) / 2))


def mean_cosine(vectors: Tensor) -> float:
    """The mean cosine between different vectors of [N, d]; 1 means that all point the same way."""
    total = normalize(vectors, dim=-1).sum(0, dtype=torch.float64)  # [d]
    n = len(vectors)
    # The squared length of the sum is the sum of all N^2 cosines, of which N are a vector's cosine
    # with itself, 1.
    return float((total.square().sum() - n) / (n * (n - 1)))


def effective_rank(vectors: Tensor) -> float:
    """How many directions the vectors [N, d] use.

    It is exp of the entropy of their normalised singular values.

    Roy and Vetterli, "The effective rank" (2007), on unit vectors with their mean taken off. It
    lies between 1, for vectors that are all the same, and min(N - 1, d).
    """
    mean = normalize(vectors, dim=-1).mean(0, dtype=torch.float64)  # [d]
    blocks = (normalize(block.double(), dim=-1) - mean for block in vectors.split(ROWS))
    gram = sum((block.T @ block for block in blocks), torch.zeros(()))  # [d, d]
    values = torch.linalg.eigvalsh(gram).clamp_min(0).sqrt()  # [d]
    shares = values / values.sum().clamp_min(1e-12)
    return float(torch.special.entr(shares).sum().exp())


@dataclass(frozen=True, eq=False)
class GeometryTask(WithoutRows):
    """Pairs of sentences, some of which should lie close together.

    There are two sentences and a positive at least.
    """

    name: str
    """The name that the user gives, such as "geometry:stsb:dev"."""

    data: str
    """The source of the pairs, such as "stsb:dev"."""

    pairs: Sequence[tuple[str, str]]

    positives: Sequence[tuple[str, str]]
    """The pairs that should lie close together."""

    positive: str
    """What makes a pair positive, in words."""

    def __post_init__(self) -> None:
        if len(set(chain(*self.pairs))) < 2:
            raise InputError(
                f"{self.data}: one sentence only; the geometry of a space needs different sentences"
            )
        if not self.positives:
            raise InputError(
                f"{self.data}: no pair has a {self.positive}; alignment needs positive pairs"
            )

    @property
    def score_names(self) -> list[str]:
        """The names of the measures."""
        return geometry_scores(self.name)

    def texts(self) -> dict[str, list[str]]:
        """The different sentences of the pairs."""
        return {"": list(dict.fromkeys(chain(*self.pairs)))}

    def score(self, encoder: SentenceEncoder) -> tuple[GeometryResult, Floats]:
        """Computes every measure on the encoder's vectors."""
        (sentences,) = self.texts().values()
        places = {sentence: place for place, sentence in enumerate(sentences)}
        encoded = sentence_vectors(encoder.encode, sentences, self.name)
        vectors = to_float64_device(encoded, encoder)  # [N, d]
        first = vectors[[places[one] for one, _ in self.positives]]
        second = vectors[[places[other] for _, other in self.positives]]
        result = GeometryResult(
            name=self.name,
            data=self.data,
            sentences=len(vectors),
            positives=len(first),
            positive=self.positive,
            normalisation="vectors scaled to length 1",
            alignment=alignment(first, second),
            uniformity=uniformity(vectors),
            mean_cosine=mean_cosine(vectors),
            effective_rank=effective_rank(vectors),
        )
        return result, NO_ROWS


def load_geometry(name: str, source: str) -> GeometryTask:
    """Reads a dataset's labelled pairs, or scored pairs.

    Scored pairs are positive from `POSITIVE` of the best score on.
    """
    dataset, _, _ = source.partition(":")
    if dataset in DATASETS and DATASETS[dataset].row_types == (LabelledPair,):
        return _load_labelled(name, source, DATASETS[dataset].positive)
    scored = read_scored_pairs(source)
    greatest = float(scored.scores.max())
    if scored.name in DATASETS:
        _, greatest = DATASETS[scored.name].scores
    least = POSITIVE * greatest
    pairs = list(zip(scored.sentence1, scored.sentence2, strict=True))
    positives = [pairs[i] for i in np.flatnonzero(scored.scores >= least)]
    return GeometryTask(name, source, pairs, positives, f"score of {least:g} or more")


def _load_labelled(name: str, source: str, label: str) -> GeometryTask:
    """Reads a dataset's labelled pairs; those with this label are positive."""
    pairs = []
    positives = []
    for row in read(source, LabelledPair):
        pair = row.sentence1, row.sentence2
        pairs.append(pair)
        if row.label == label:
            positives.append(pair)
    return GeometryTask(name, source, pairs, positives, f"label {label}")
