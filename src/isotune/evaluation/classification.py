"""Metrics of predicted classes and scores, by the names that a dev feed gives.

They are GLUE's: accuracy; F1 of class 1 (MRPC); Matthews' correlation (CoLA); Pearson's and Spearman's (STS-B). The
numbers are scikit-learn's and scipy's. Where a prediction that never varies makes a metric undefined, it is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotune.errors import InputError, unknown
from isotune.evaluation.sts import correlations

Values = NDArray[np.integer[Any] | np.floating[Any]]


def measure(metric: str, targets: Values, predictions: Values) -> float:
    """A metric of N predictions against what is true; higher is better.

    Args:
        metric: a key of `METRICS`.
        targets: [N] class numbers or scores.
        predictions: [N] of the same kind.

    Raises:
        InputError: there is no metric of that name, or a correlation with scores that are all equal.
    """
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    return METRICS[metric](targets, predictions)


def _accuracy(targets: Values, predictions: Values) -> float:
    return float(np.mean(targets == predictions))


def _f1(targets: Values, predictions: Values) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(targets, predictions, zero_division=0.0))


def _matthews(targets: Values, predictions: Values) -> float:
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(targets, predictions))


def _pearson(targets: Values, predictions: Values) -> float:
    return _correlations(targets, predictions)[1]


def _spearman(targets: Values, predictions: Values) -> float:
    return _correlations(targets, predictions)[0]


def _correlations(targets: Values, predictions: Values) -> tuple[float, float]:
    both = correlations(targets.astype(np.float64), predictions.astype(np.float64))
    if both is None:
        raise InputError(f"all {len(targets)} scores are equal, so no correlation with them is defined")
    return both


METRICS: Mapping[str, Callable[[Values, Values], float]] = MappingProxyType(
    {"accuracy": _accuracy, "f1": _f1, "matthews": _matthews, "pearson": _pearson, "spearman": _spearman}
)
