"""Semantic textual similarity (STS): do vectors agree with people on similarity?

People scored pairs of sentences for similarity: the gold scores. An encoder's score on a task is
the correlation of its cosines with the gold scores: Spearman's, of their ranks, and Pearson's, of
their values. Nothing is fitted. The correlations are scipy's.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isotune.data import ScoredPairs
from isotune.errors import InputError, UselessVectors
from isotune.evaluation.copies import Groups
from isotune.evaluation.intervals import resampled_correlations
from isotune.evaluation.results import Aggregates, Aggregation, Metric, STSResult, SubsetResult
from isotune.evaluation.vectors import Floats, SentenceEncoder, sentence_vectors, unit_length


@dataclass(frozen=True, eq=False)
class STSTask:
    """Pairs of sentences with gold scores, to score an encoder on."""

    pairs: ScoredPairs

    groups: Groups | None = None
    """Which pairs are copies of each other; None if there are none, or if each pair counts."""

    measure = "spearman"
    """What the task's score is."""

    unit = "pairs"
    """What the task's rows are."""

    @property
    def name(self) -> str:
        """The name of the pairs."""
        return self.pairs.name

    def score(self, encoder: SentenceEncoder) -> tuple[STSResult, Floats]:
        """Correlates the pairs' cosines [N] with the gold scores.

        Raises as `cosine_similarities` and `score` do.
        """
        cosines = cosine_similarities(encoder, self.pairs)
        return score(self.pairs, cosines), cosines

    @property
    def score_names(self) -> list[str]:
        """The name of the task."""
        return [self.name]

    def texts(self) -> dict[str, list[str]]:
        """The different sentences of the pairs."""
        return {"": list(dict.fromkeys(self.pairs.sentence1 + self.pairs.sentence2))}

    def resampled(
        self,
        values: Floats,
        aggregation: Aggregation = "all",
        metric: Metric = "spearman",
        seed: int = 0,
    ) -> dict[str, Floats]:
        """The correlations on samples of the pairs, by their cosines [N]."""
        correlations = resampled_correlations(
            self.pairs, values, aggregation, metric, seed=seed, groups=self.groups
        )
        return {self.name: correlations}


def cosine_similarities(encoder: SentenceEncoder, pairs: ScoredPairs) -> NDArray[np.float64]:
    """The cosine of each pair's two vectors, [N]; 0 if a vector is zero.

    Refuses vectors that aren't finite.
    """
    sentences = pairs.sentence1 + pairs.sentence2
    vectors = sentence_vectors(encoder.encode, sentences, pairs.name)  # [2 N, d]
    first, second = np.split(unit_length(vectors.astype(float)), 2)
    # Rounded, so that all pairs of two equal sentences tie at exactly 1 and rounding errors do not
    # rank them.
    return np.einsum("nd,nd->n", first, second).round(10)


def correlations(gold: Floats, cosines: Floats) -> tuple[float, float] | None:
    """Spearman's and Pearson's correlation of arrays [N].

    It is None if all gold scores are equal, 0 if all cosines are.
    """
    from scipy.stats import NearConstantInputWarning, pearsonr, spearmanr

    if not _varies(gold):
        return None
    if not _varies(cosines):
        return 0.0, 0.0
    with warnings.catch_warnings():
        # The cosines of a space that is collapsing are nearly constant; their correlation is still
        # meaningful.
        warnings.simplefilter("ignore", NearConstantInputWarning)
        spearman = float(spearmanr(gold, cosines).statistic)
        pearson = float(pearsonr(gold, cosines).statistic)
    return spearman, pearson


def score(pairs: ScoredPairs, cosines: Floats) -> STSResult:
    """Correlates the cosines [N] of N pairs with their gold scores.

    There is a correlation over all pairs, and one for each subset.

    A subset whose gold scores are all equal has no correlation: the result has None for it, and
    `mean` and `wmean` leave it out, for every encoder alike. A subset where only the cosines are
    all equal counts as 0, so that an encoder cannot raise its mean by failing altogether.
    """
    gold = pairs.scores
    overall = correlations(gold, cosines)
    if overall is None:
        raise InputError(
            f"{pairs.name}: all {len(gold)} gold scores are equal, so no correlation is defined"
        )
    if pairs.sentence1 == pairs.sentence2:
        raise InputError(
            f"{pairs.name}: both sentences of each pair are the same text, so all cosines are 1"
        )
    if not _varies(cosines):
        raise UselessVectors(
            f"{pairs.name}: the encoder gives all {len(gold)} pairs the same cosine "
            f"({cosines[0]:.4f}), so no correlation is defined; its space has collapsed"
        )
    subsets = _score_subsets(pairs, cosines)
    defined = [subset for subset in subsets.values() if subset.spearman is not None]
    if not defined:
        raise InputError(
            f"{pairs.name}: each subset's gold scores are all equal, so it has no mean over subsets"
        )
    sizes = [subset.pairs for subset in defined]
    spearman, pearson = overall
    return STSResult(
        name=pairs.name,
        split=pairs.split,
        pairs=len(gold),
        spearman=_aggregates(spearman, [subset.spearman for subset in defined], sizes),
        pearson=_aggregates(pearson, [subset.pearson for subset in defined], sizes),
        subsets=subsets,
    )


def _score_subsets(pairs: ScoredPairs, cosines: Floats) -> dict[str, SubsetResult]:
    """The correlations of each subset by its name."""
    labels = np.asarray(pairs.subsets)
    subsets = {}
    for name in dict.fromkeys(pairs.subsets):
        rows = labels == name
        found = correlations(pairs.scores[rows], cosines[rows])
        spearman, pearson = found or (None, None)
        subsets[name] = SubsetResult(pairs=int(rows.sum()), spearman=spearman, pearson=pearson)
    return subsets


def _aggregates(
    overall: float, by_subset: Sequence[float | None], sizes: Sequence[int]
) -> Aggregates:
    """A correlation over all pairs, and its means over the subsets of these sizes."""
    values = np.asarray(by_subset, float)
    weighted = float(np.average(values, weights=sizes))
    return Aggregates(all=overall, mean=float(values.mean()), wmean=weighted)


def _varies(values: Floats) -> bool:
    """Whether the values differ by more than rounding errors."""
    return bool(np.ptp(values) > 1e-9 * np.abs(values).max())
