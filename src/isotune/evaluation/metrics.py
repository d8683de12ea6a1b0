"""Metrics of predicted classes and scores, by the names that a method's dev data gives.

They are GLUE's: accuracy; F1 of class 1 (MRPC); Matthews' correlation (CoLA); Pearson's and
Spearman's (STS-B); and macro F1, the mean of the classes' F1. The numbers are scikit-learn's and
scipy's. If all predictions are equal, a correlation is undefined and counts as 0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotune.errors import InputError
from isotune.evaluation.sts import correlations

Values = NDArray[np.integer[Any] | np.floating[Any]]


def compute_metric(metric: str, targets: Values, predictions: Values) -> float:
    """Compares predictions with true class numbers or scores, both [N], by one of these metrics.

    Higher is better.
    """
    if metric == "accuracy":
        return float(np.mean(targets == predictions))
    if metric in ("f1", "macro_f1"):
        from sklearn.metrics import f1_score

        averages = {"f1": "binary", "macro_f1": "macro"}
        f1 = f1_score(targets, predictions, average=averages[metric], zero_division=0.0)
        return float(f1)
    if metric == "matthews":
        from sklearn.metrics import matthews_corrcoef

        return float(matthews_corrcoef(targets, predictions))
    found = correlations(targets.astype(np.float64), predictions.astype(np.float64))
    if found is None:
        raise InputError(
            f"all {len(targets)} scores are equal, so no correlation with them is defined"
        )
    spearman, pearson = found
    return spearman if metric == "spearman" else pearson
