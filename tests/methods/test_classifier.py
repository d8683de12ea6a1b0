"""The regressions from vectors to labels."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight

from isotune.data import LabelledSentence
from isotune.methods.classifier import fit_head, has_label
from isotune.methods.options import ClassifierOptions
from isotune.methods.regression import (
    FEW_STRENGTH,
    LOWEST,
    PENALTIES,
    class_weights,
    fit_logistic,
    fit_ridge,
    fit_several,
    folds_of,
    log_probabilities,
    logistic,
)

Floats = NDArray[np.float64]


def clouds(counts: list[int], apart: float = 1.5) -> tuple[Floats, NDArray[np.int64]]:
    """Vectors of 6 features around a centre for each class, and the classes."""
    generator = np.random.default_rng(0)
    targets = np.repeat(np.arange(len(counts)), counts)
    centres = apart * generator.normal(size=(len(counts), 6))
    scales = np.array([1, 10, 0.1, 1, 1, 1])
    return scales * (centres[targets] + generator.normal(size=(len(targets), 6))), targets


@pytest.mark.parametrize("counts", [[30, 40], [30, 20, 25]])
@pytest.mark.parametrize("balanced", [False, True])
def test_the_layer_predicts_as_scikit_learn_does(counts: list[int], balanced: bool) -> None:
    x, y = clouds(counts)
    layer, choice = fit_logistic(x, y, np.arange(len(y)), balanced)
    weights = "balanced" if balanced else None
    logistic = LogisticRegression(C=choice.strength, max_iter=1000, class_weight=weights)
    expected = make_pipeline(StandardScaler(), logistic).fit(x, y).predict_proba(x)
    outputs = np.exp(x @ layer.weights.T + layer.bias)
    np.testing.assert_allclose(outputs / outputs.sum(1, keepdims=True), expected, atol=1e-3)


@pytest.mark.parametrize("counts", [[30, 40], [30, 20, 25]])
def test_the_logarithms_of_probabilities_are_right_also_where_scikit_learn_rounds_to_zero(
    counts: list[int],
) -> None:
    x, y = clouds(counts)
    classifier = logistic(1.0).fit(x, y + 1)
    found = log_probabilities(classifier, x, len(counts) + 2)
    assert (found[:, [0, -1]] == LOWEST).all()
    expected = np.log(classifier.predict_proba(x))
    np.testing.assert_allclose(found[:, 1:-1], np.maximum(expected, LOWEST), atol=1e-6)
    surest = log_probabilities(classifier, 1e4 * x, len(counts) + 2)
    np.testing.assert_allclose(np.sort(surest)[:, -2:], [[LOWEST, 0]] * len(y), atol=1e-6)


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    _, y = clouds([3, 9, 18])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=y)
    np.testing.assert_allclose(class_weights(y, balanced=True), expected[y])
    assert (class_weights(y, balanced=False) == 1).all()


def test_copies_stand_in_one_fold_and_a_class_of_one_text_is_always_trained_on() -> None:
    targets = np.array([0] * 8 + [1] * 8 + [2, 2] + [3])
    groups = np.array([0, 0, *range(1, 7), *range(7, 13), 13, 13, 14, 15, 16])
    folds = folds_of(targets, groups)
    tested = np.concatenate([rows for _, rows in folds])
    assert len(folds) == 5
    assert sorted(tested) == [*range(18)]
    for seen, rows in folds:
        assert not set(groups[seen]) & set(groups[rows])
        assert set(targets[seen]) == {0, 1, 2, 3}


def test_without_two_classes_of_two_texts_there_are_no_folds() -> None:
    assert folds_of(np.array([0, 1, 2]), np.arange(3)) == []
    assert folds_of(np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 3, 3])) == []
    x, y = clouds([1, 1, 1])
    layer, choice = fit_logistic(x, y, np.arange(3))
    assert choice.strength == FEW_STRENGTH
    assert len(choice.rows) == 0
    assert layer.weights.shape == (3, 6)


def test_the_outputs_of_the_folds_are_by_classifiers_without_the_fold() -> None:
    """Labels at random: a classifier that knew the rows would find them."""
    x, y = clouds([60, 60], apart=0.0)
    _, choice = fit_logistic(x, y, np.arange(len(y)))
    right = choice.outputs.argmax(1) == y[choice.rows]
    assert 0.3 < right.mean() < 0.7
    assert choice.outputs.min() > LOWEST


def test_several_labels_have_a_regression_each() -> None:
    x, y = clouds([40, 40, 40], apart=2.5)
    chosen = np.stack([y == 0, y != 1, np.full(len(y), True)], 1).astype(np.int64)
    layer = fit_several(x, chosen, np.arange(len(y)))
    outputs = x @ layer.weights.T + layer.bias
    assert ((outputs > 0) == chosen).mean(0).tolist() == pytest.approx([1, 1, 1], abs=0.1)
    single, _ = fit_logistic(x, chosen[:, 0], np.arange(len(y)))
    np.testing.assert_allclose(layer.weights[0], single.weights[1] - single.weights[0])


def test_numbers_are_predicted_by_a_ridge_regression() -> None:
    x, _ = clouds([200])
    scores = x[:, 1] / 10 - 2 * x[:, 0] + 3
    layer = fit_ridge(x, scores, np.arange(len(x)) // 2)
    scaler = StandardScaler()
    standardised = scaler.fit_transform(x)
    ridges = [Ridge(alpha=alpha).fit(standardised, scores) for alpha in PENALTIES]
    assert layer.weights.shape == (1, 6)
    predicted = x @ layer.weights[0] + layer.bias
    assert any(np.allclose(predicted, ridge.predict(standardised)) for ridge in ridges)
    np.testing.assert_allclose(predicted, scores, atol=0.1)


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({"classes": ("x", "y")}, ["x", "y"] * 20),
        ({"kind": "multi", "separator": ";", "classes": ("x", "y")}, ["x", "x; y"] * 20),
        ({"kind": "multi", "classes": ("x", "y")}, ["x", "x\x1fy"] * 20),
        ({"kind": "score"}, ["1", "4.5"] * 20),
    ],
)
def test_a_head_learns_its_rows(options: dict[str, object], labels: list[str]) -> None:
    x, y = clouds([20, 20], apart=4.0)
    x[::2], x[1::2] = x[y == 0].copy(), x[y == 1].copy()
    rows = [LabelledSentence(f"text {number}", label) for number, label in enumerate(labels)]
    head = fit_head(rows, x.astype(np.float32), ClassifierOptions.model_validate(options))
    predicted = head.predictions(head.outputs(x.astype(np.float32)))
    if head.kind == "score":
        expected = [float(label) for label in labels]
        np.testing.assert_allclose(np.array(predicted, np.float64), expected, atol=1.0)
    elif head.kind == "multi":
        assert predicted == [("x",), ("x", "y")] * 20
        assert has_label(rows, ClassifierOptions.model_validate(options))[:2].tolist() == [
            [1, 0],
            [1, 1],
        ]
    else:
        assert predicted == labels
        assert head.settings.calibration_rows == 40
