"""Literal transcriptions of the tests of differences."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

Floats = NDArray[np.float64]


def sign_permutation_p(differences: list[float]) -> float:
    """The share of all 2^n choices of signs whose mean is at least as far from 0."""
    seen = abs(sum(differences))
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(value >= seen - 1e-12 for value in sums) / len(sums)


def score_of_draw(gold: Floats, cosines: Floats, counts: NDArray[np.int64], spearman: bool) -> float:
    """The correlation of the pairs written out, pair i counts[i] times."""
    drawn = [i for i, count in enumerate(counts) for _ in range(count)]
    return float((spearmanr if spearman else pearsonr)(gold[drawn], cosines[drawn]).statistic)
