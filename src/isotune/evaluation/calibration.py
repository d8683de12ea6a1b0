"""From which cosine on two sentences mean the same.

A logistic regression is fitted to pairs that people have scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isotune.data import DATASETS, HIGHEST_SCORE, ScoredPair
from isotune.encoder.calibration import Calibration
from isotune.errors import InputError, counted
from isotune.evaluation.copies import Groups, groups_of_copies, tell_copies
from isotune.evaluation.task_rows import rows_of
from isotune.evaluation.vectors import Floats, sentence_vectors, unit_length

if TYPE_CHECKING:
    from isotune.encoder import Encoder

FEWEST = 20
"""So many different pairs are needed.

In simulations, probabilities are off by 0.09 in the mean after 20 pairs, by 0.14 after 10 and by
0.20 after two. A curve through two pairs is surer than any.
"""

DEVIATIONS = 1.96
"""So many deviations of a normal distribution, on either side of the mean, hold 95 %."""

NARROWEST = 1e-6
"""The least distance between the smallest and the largest cosine."""


def calibrate(
    encoder: Encoder | str | Path,
    pairs: str | Path | Iterable[ScoredPair],
    *,
    scale: float | None = None,
) -> Calibration:
    """Fits the probability that two sentences mean the same, given their cosine.

    Args:
        encoder: an encoder, or its folder or hub name. It is not changed;
            `encoder.calibration = ...` keeps the result.
        pairs: a file, also with its columns as in "pairs.csv,first,second,grade"; a dataset's
            "name:split"; or rows. Their scores begin at 0, which says that two sentences have
            nothing in common. Those of a dataset have the dataset's scale.
        scale: the score of two sentences that mean the same. If None, 5, as `isotune label` writes
            it; then some score has to be above 1.

    Raises:
        InputError: the pairs can't be read or are fewer than `FEWEST`, their scale is not known, a
            score is not on the scale, all scores are equal, or the pairs with higher cosines don't
            have higher scores.
    """
    if isinstance(encoder, str | Path):
        # This imports transformers.
        from isotune.encoder import Encoder

        encoder = Encoder.load(encoder)
    name = "the pairs"
    if isinstance(pairs, str | Path):
        name = str(pairs)
    rows = rows_of(pairs, ScoredPair)
    cosines, same = _cosines_and_shares(encoder, rows, name, scale)
    slope, threshold, deviation = fit(cosines, same)
    if slope <= 0:
        raise InputError(
            f"{name}: pairs with a higher cosine don't have higher scores; calibrate by other pairs"
        )
    if len(same) < FEWEST:
        raise InputError(
            f"{name}: {counted(len(same), 'different pair')}, and {FEWEST} are needed to "
            "calibrate; score more, for example by isotune label"
        )
    return Calibration(
        slope=slope,
        threshold=threshold,
        low=threshold - DEVIATIONS * deviation,
        high=threshold + DEVIATIONS * deviation,
        pairs=len(same),
        fingerprint=encoder.fingerprint(),
    )


def _cosines_and_shares(
    encoder: Encoder, rows: Sequence[ScoredPair], name: str, scale: float | None
) -> tuple[Floats, Floats]:
    """The cosine [N] of each different pair, and the share [N] in which it means the same."""
    first, second, scores = zip(*rows, strict=True)
    same = _shares(np.array(scores), name, scale)
    vectors = sentence_vectors(encoder.encode, first + second, name)  # [2 N, d]
    cosines = np.einsum("nd,nd->n", *np.split(unit_length(vectors.astype(np.float64)), 2))
    _refuse_equal(same, f"{name}: all {len(rows)} pairs have one score")
    _refuse_equal(cosines, f"{name}: all {len(rows)} pairs have one cosine")
    groups = groups_of_copies(first, second)
    if groups is not None:
        tell_copies(name, groups, "pair", "each counts once, with the mean of its scores")
        cosines = _means_of_groups(cosines, groups)
        same = _means_of_groups(same, groups)
        _refuse_equal(same, f"{name}: all pairs have one mean score")
    return cosines, same


def _refuse_equal(values: Floats, problem: str) -> None:
    """Refuses pairs whose values are all equal."""
    if np.ptp(values) < NARROWEST:
        raise InputError(f"{problem}; give pairs that mean the same and others")


def fit(cosines: Floats, same: Floats) -> tuple[float, float, float]:
    """The curve's slope, its threshold, and the threshold's standard deviation.

    Of N pairs it takes the cosines [N], and the shares [N] in which the pairs mean the same;
    neither are all equal. A pair counts as the same with its share as the weight, and as not the
    same with the rest. Platt's targets (1999, section 2.2) are a little above 0 and below 1, so the
    fit is finite where a cosine separates the pairs. The deviation is that of the delta method for
    pairs that are judged one or the other; for shares it is too large.
    """
    from sklearn.linear_model import LogisticRegression

    positives = same.sum()
    highest = (positives + 1) / (positives + 2)
    lowest = 1 / (len(same) - positives + 2)
    targets = lowest + (highest - lowest) * same  # [N]
    regression = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-8)
    labels = np.repeat([1, 0], len(same))  # [2 N]
    weights = np.concatenate([targets, 1 - targets])  # [2 N]
    regression.fit(np.tile(cosines, 2)[:, None], labels, sample_weight=weights)
    slope = regression.coef_[0, 0]
    threshold = -regression.intercept_[0] / slope
    variances = regression.predict_proba(cosines[:, None]).prod(1)  # [N]
    features = np.stack([np.ones_like(cosines), cosines], 1)  # [N, 2]
    # The threshold's gradient by the intercept and the slope, with the sign changed.
    gradient = np.array([1.0, threshold]) / slope  # [2]
    variance = gradient @ np.linalg.solve((features.T * variances) @ features, gradient)
    return float(slope), float(threshold), float(np.sqrt(variance))


def _means_of_groups(values: Floats, groups: Groups) -> Floats:
    """The mean of the values [N] of each group, [groups]."""
    return np.bincount(groups, values) / np.bincount(groups)


def _shares(scores: Floats, name: str, scale: float | None) -> Floats:
    """The scores [N] as shares of the score that says that two sentences mean the same."""
    lowest, highest = _scale(scores, name, scale)
    shares: Floats = (scores - lowest) / (highest - lowest)
    wrong = (shares < 0) | (shares > 1)
    if wrong.any():
        raise InputError(
            f"{name}: a score of {scores[wrong][0]:g}; give scores from {lowest:g} to {highest:g}, "
            "or another scale"
        )
    return shares


def _scale(scores: Floats, name: str, scale: float | None) -> tuple[float, float]:
    """The lowest and the highest possible score: those of a dataset, or those that were given."""
    if scale is not None:
        return 0.0, scale or HIGHEST_SCORE
    dataset = name.partition(":")[0]
    if dataset in DATASETS:
        lowest, highest = DATASETS[dataset].scores
        return lowest, highest
    if scores.max() <= 1:
        raise InputError(
            f"{name}: no score is above 1, so their scale is not known; give scale 1 if 1 says "
            f"that two sentences mean the same, or {HIGHEST_SCORE:g}, as isotune label writes it"
        )
    return 0.0, HIGHEST_SCORE
