"""The metrics of classes and scores, against their definitions."""

import math

import numpy as np
import pytest

from isotune.errors import InputError
from isotune.evaluation.metrics import compute_metric
from tests.reference import supervised as reference

TARGETS = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1]
PREDICTIONS = [1, 0, 0, 1, 1, 0, 1, 0, 0, 1]


def test_metrics_of_classes_equal_their_definitions() -> None:
    targets, predictions = np.array(TARGETS), np.array(PREDICTIONS)
    assert compute_metric("accuracy", targets, predictions) == 0.7
    assert compute_metric("f1", targets, predictions) == pytest.approx(
        reference.f1(TARGETS, PREDICTIONS)
    )
    assert compute_metric("matthews", targets, predictions) == pytest.approx(
        reference.matthews(TARGETS, PREDICTIONS)
    )


def test_pearson_sees_the_values_and_spearman_the_order_and_equal_targets_are_refused() -> None:
    scores = np.arange(6.0)
    assert compute_metric("pearson", scores, 3 - 2 * scores) == pytest.approx(-1)
    assert compute_metric("spearman", scores, np.exp(scores)) == pytest.approx(1)
    assert compute_metric("pearson", scores, np.exp(scores)) < 0.9
    with pytest.raises(InputError, match="all 3 scores are equal"):
        compute_metric("pearson", np.ones(3), np.arange(3.0))


@pytest.mark.parametrize("metric", ["f1", "matthews", "pearson", "spearman"])
def test_a_prediction_that_never_varies_scores_0(metric: str) -> None:
    assert compute_metric(metric, np.array(TARGETS), np.zeros(10)) == 0
    assert math.isfinite(compute_metric(metric, np.array(TARGETS), np.ones(10)))
