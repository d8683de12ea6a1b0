"""How many scored pairs tell a gain, before any pair is scored.

Two similar encoders rank the same pairs nearly alike, so the difference of their scores is surer
than either score. On N pairs, the variance of the difference of two Spearman correlations is about

    2 (1 - r^2) (1 - a(N)) / N

where r is the correlation of cosines and scores, and a(N) that of the two encoders' cosines on N
pairs. This is the variance for two correlations with a common variable (Steiger, 1980, "Tests for
comparing elements of a correlation matrix"), for two equal r and a near 1. On few pairs the ranks
agree less: 1 - a(N) is about 1 - a + 3 (1 - tau) / N, where a is the correlation on very many pairs
and tau that of Kendall (Hoeffding, 1948, "A class of statistics with asymptotically normal
distribution"). For normal variables, 1 - tau is about `TAU` times the root of 1 - a.
"""

import math
from collections.abc import Iterator

from isotune.evaluation.labelling.session import FEWEST

GAINS = {"2 points": 0.02, "1 point": 0.01, "half a point": 0.005}
"""The gains, in Spearman's correlation, whose number of pairs is told."""

USUAL_SCORE = 0.7
"""The r of the formula: nobody knows the correlation with scores before there are scores."""

USUAL_COUNT = 50
"""The pairs that `isotune label` chooses."""

DO_NOT_LABEL = "do not label for this"
"""How the line begins that says that labels would not show the usual gain."""

REASONABLE = 1_000
"""More pairs than this take a person longer than a working day, at half a minute each."""

TAU = 0.86
"""(2 / pi) sqrt(2 (1 - R) / (1 - a)), where R is Pearson's correlation near 1."""

FACTOR = 1.2
"""The standard error on real pairs, in those of the formula; measured in docs/evaluation.md."""

SURE = 1.96 + 0.84
"""A gain of so many standard errors has a 95 % interval above 0 in four of five samples."""


def pairs_needed(gain: float, agreement: float) -> int:
    """How many scored pairs tell a gain in four of five cases, by a 95 % interval.

    The gain is a difference of Spearman correlations. `agreement` is Spearman's correlation of the
    two encoders' cosines.
    """
    disagreement = 1 - agreement
    # N^2 = scale (disagreement N + 3 TAU sqrt(disagreement))
    scale = 2 * (1 - USUAL_SCORE**2) * (SURE * FACTOR / gain) ** 2
    linear = scale * disagreement
    constant = scale * 3 * TAU * math.sqrt(disagreement)
    return math.ceil((linear + math.sqrt(linear**2 + 4 * constant)) / 2)


def gain_shown(count: int, agreement: float) -> float:
    """The gain that `count` scored pairs tell in four of five cases: `pairs_needed` inverted."""
    disagreement = 1 - agreement
    spread = disagreement / count + 3 * TAU * math.sqrt(disagreement) / count**2
    return SURE * FACTOR * math.sqrt(2 * (1 - USUAL_SCORE**2) * spread)


def forecast_lines(
    agreement: float, usual_gain: float | None = None, count: int = USUAL_COUNT
) -> Iterator[str]:
    """What scored pairs can tell of two encoders, in lines.

    `agreement` is Spearman's correlation of the encoders' cosines on the pairs that `isotune label`
    chooses. `usual_gain` is what runs of the recipe usually gain, in points (Spearman x 100).
    """
    needed = words_of_needed(agreement, count)
    if not needed:
        return
    yield needed
    if usual_gain is None:
        return
    pairs = pairs_needed(usual_gain / 100, agreement)
    if pairs > REASONABLE:
        yield (
            f"{DO_NOT_LABEL}: runs of this recipe usually gain about {usual_gain:g} points, "
            f"which about {_rounded(pairs):,} scored pairs would show; that is too much work"
        )


def words_of_needed(agreement: float, count: int = USUAL_COUNT) -> str:
    """Says how many scored pairs tell some gains, and what `count` pairs tell.

    It is empty if the encoders never differ.
    """
    if agreement >= 1:
        return ""
    parts = []
    for words, gain in GAINS.items():
        needed = max(FEWEST, _rounded(pairs_needed(gain, agreement)))
        parts.append(f"about {needed:,} for a gain of {words}")
    shown = 100 * gain_shown(count, agreement)
    digits = 1 if shown < 2 else 0
    return (
        f"scored pairs that tell these encoders apart (Spearman x 100): {', '.join(parts)}; "
        f"{count:,} show a gain of about {shown:.{digits}f} points or more"
    )


def _rounded(count: int) -> int:
    """The number with two digits and zeros."""
    return int(float(f"{count:.1e}"))
