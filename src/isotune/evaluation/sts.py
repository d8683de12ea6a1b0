"""Semantic textual similarity: how well the cosine of two sentences' vectors follows people's score for them.

Nothing is fitted: a task is scored by a rank correlation (Spearman) and a linear one (Pearson) between the
cosines and the gold scores as they are. The numbers are scipy's.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotune.data import ScoredPairs
from isotune.errors import InputError
from isotune.evaluation.results import Aggregates, STSResult, SubsetResult
from isotune.evaluation.vectors import SentenceEncoder, sentence_vectors

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class STSTask:
    """Scored pairs to score an encoder on."""

    name: str
    title: str
    pairs: ScoredPairs

    def score(self, encoder: SentenceEncoder) -> STSResult:
        """The correlations of the encoder's cosines with the gold scores.

        Raises:
            InputError: as `cosine_similarities` and `score`.
        """
        return score(self.pairs, cosine_similarities(encoder, self.pairs))


def cosine_similarities(encoder: SentenceEncoder, pairs: ScoredPairs) -> NDArray[np.float64]:
    """The cosine of each pair's two vectors, [N]; 0 where one of them is the zero vector.

    Raises:
        InputError: the encoder gives a vector with a value that is not finite.
    """
    vectors = sentence_vectors(encoder, pairs.sentence1 + pairs.sentence2, pairs.name).astype(np.float64)  # [2 N, d]
    length = np.linalg.norm(vectors, axis=1, keepdims=True)  # [2 N, 1]
    first, second = np.split(np.divide(vectors, length, out=vectors, where=length > 0), 2)
    # Rounded so that pairs of two equal sentences tie at exactly 1 and are not ranked by rounding errors.
    cosines: NDArray[np.float64] = np.einsum("nd,nd->n", first, second)
    return cosines.round(10)


def correlations(gold: Floats, cosines: Floats) -> tuple[float, float] | None:
    """Spearman and Pearson of two arrays [N]; None where all gold scores are equal.

    Equal cosines for pairs that people told apart rank nothing: both correlations are 0 then.
    """
    from scipy.stats import NearConstantInputWarning, pearsonr, spearmanr

    if not _varies(gold):
        return None
    if not _varies(cosines):
        return 0.0, 0.0
    with warnings.catch_warnings():
        # A space that is collapsing has such cosines; their correlation still tells how far it has come.
        warnings.simplefilter("ignore", NearConstantInputWarning)
        return float(spearmanr(gold, cosines).statistic), float(pearsonr(gold, cosines).statistic)


def score(pairs: ScoredPairs, cosines: Floats) -> STSResult:
    """The task's result from its pairs and their cosines [N].

    A subset whose gold scores are all equal has no correlation: it is None in the result and left out of mean
    and wmean, for every encoder alike. A subset where only the cosines are equal counts as 0, so that an
    encoder can't raise its mean by failing altogether.

    Raises:
        InputError: all cosines of the task are equal, or its gold scores are, or those of each subset.
    """
    gold = pairs.scores
    whole = correlations(gold, cosines)
    if whole is None:
        raise InputError(f"{pairs.name}: all {len(gold)} gold scores are equal, so no correlation is defined")
    if not _varies(cosines):
        raise InputError(
            f"{pairs.name}: the encoder gives all {len(gold)} pairs the same cosine ({cosines[0]:.4f}), so "
            "no correlation is defined; its space has collapsed"
        )
    labels = np.asarray(pairs.subsets)
    subsets, defined = {}, []
    for name in dict.fromkeys(pairs.subsets):
        rows = labels == name
        size = int(rows.sum())
        both = correlations(gold[rows], cosines[rows])
        if both is not None:
            defined.append((size, *both))
        spearman, pearson = both or (None, None)
        subsets[name] = SubsetResult(pairs=size, spearman=spearman, pearson=pearson)
    if not defined:
        raise InputError(f"{pairs.name}: each subset's gold scores are all equal, so it has no mean over subsets")
    sizes, spearmans, pearsons = zip(*defined, strict=True)
    return STSResult(
        name=pairs.name,
        split=pairs.split,
        pairs=len(gold),
        spearman=_aggregates(whole[0], spearmans, sizes),
        pearson=_aggregates(whole[1], pearsons, sizes),
        subsets=subsets,
    )


def _aggregates(whole: float, parts: Sequence[float], sizes: Sequence[int]) -> Aggregates:
    return Aggregates(
        all=whole,
        mean=float(np.mean(parts)),
        wmean=float(np.average(parts, weights=np.asarray(sizes, float))),
    )


def _varies(values: Floats) -> bool:
    """Whether the values differ by more than rounding errors."""
    return bool(np.ptp(values) > 1e-9 * np.abs(values).max())
