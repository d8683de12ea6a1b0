"""A literal transcription of the bootstrap."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

Floats = NDArray[np.float64]


def score_of_draw(
    gold: Floats, cosines: Floats, counts: NDArray[np.int64], spearman: bool
) -> float:
    """The correlation of the pairs written out, pair i counts[i] times."""
    drawn = [i for i, count in enumerate(counts) for _ in range(count)]
    return float((spearmanr if spearman else pearsonr)(gold[drawn], cosines[drawn]).statistic)
