"""Regressions from vectors to labels, with scikit-learn: how strong they are, and how sure.

The strength of the regularisation is chosen by folds of the rows. The rows of a group are copies of
a text and stand in one fold, so that nothing is learned from a row and tested on its copy.

Letters: N rows, d features, C classes.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import log_softmax

Floats: TypeAlias = NDArray[np.floating[Any]]
Integers: TypeAlias = NDArray[np.integer[Any]]
Features: TypeAlias = Floats | csr_matrix
"""[N, d] vectors of texts, or the sparse counts of their words."""

Estimator: TypeAlias = Any
"""A classifier of scikit-learn, which has no types."""

FOLDS = 5
"""The folds by which a strength is chosen; fewer where no class has so many texts."""

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)
"""scikit-learn's C that are tried on standardised vectors. A lower C regularises more."""

PENALTIES = tuple(10.0**power for power in range(-1, 6))
"""The alphas of the ridge regression that are tried on standardised vectors."""

FEW_STRENGTH = 1e-2
"""C where no class has two texts, so that there are no folds."""

LOWEST = -20.0
"""The logarithm of a probability that stands for a class that a fold has not learned."""


class Linear(NamedTuple):
    """A linear layer, x -> x W^T + b."""

    weights: Floats
    """[C, d]; [1, d] for a score."""

    bias: Floats
    """[C]"""


class Choice(NamedTuple):
    """The strength that folds have chosen."""

    strength: float

    outputs: Floats
    """[n, C] the logarithms of the probabilities of n rows, each by a classifier without its fold.
    """

    rows: Integers
    """[n] the numbers of these rows. A class that stands at one text alone is never tested."""


def class_weights(targets: Integers, balanced: bool) -> Floats:
    """The weight [N] of each row: 1, or scikit-learn's balanced N / (C times the class's rows).

    `targets` are class numbers [N].
    """
    from sklearn.utils.class_weight import compute_sample_weight

    weights: Floats = compute_sample_weight("balanced" if balanced else None, targets)
    return weights


def logistic(strength: float) -> Estimator:
    """A logistic regression on standardised features, not trained yet."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))


def choose_strength(
    build: Callable[[float], Estimator],
    strengths: Sequence[float],
    x: Features,
    targets: Integers,
    groups: Integers,
    weights: Floats,
) -> Choice:
    """Chooses the strength whose classifiers give the rows of other folds the highest likelihood.

    Args:
        build: makes a classifier of a strength.
        strengths: those that are tried.
        x: features [N, d].
        targets: class numbers [N], from 0, each at one row or more.
        groups: the number [N] of each row's group.
        weights: how much each row counts, [N].
    """
    folds = folds_of(targets, groups)
    if not folds:
        nothing = np.empty((0, int(targets.max()) + 1))
        return Choice(FEW_STRENGTH, nothing, np.empty(0, np.int64))
    rows = np.concatenate([tested for _, tested in folds])
    best = -np.inf
    choice = None
    for strength in strengths:
        outputs = []
        for seen, tested in folds:
            classifier = trained(build(strength), x[seen], targets[seen], weights[seen])
            outputs.append(log_probabilities(classifier, x[tested], int(targets.max()) + 1))
        joined = np.concatenate(outputs)  # [n, C]
        likelihood = np.average(joined[np.arange(len(rows)), targets[rows]], weights=weights[rows])
        if likelihood > best:
            best = likelihood
            choice = Choice(strength, joined, rows)
    assert choice is not None
    return choice


def fit_logistic(
    vectors: Floats, targets: Integers, groups: Integers, balanced: bool = False
) -> tuple[Linear, Choice]:
    """The layer of a logistic regression on vectors [N, d], whose strength folds choose.

    Of two classes, the outputs are -z / 2 and z / 2, where z is the log odds of the second: so the
    softmax of the outputs gives the probabilities for any number of classes.
    """
    weights = class_weights(targets, balanced)
    choice = choose_strength(logistic, STRENGTHS, vectors, targets, groups, weights)
    scaler, regression = trained(logistic(choice.strength), vectors, targets, weights)
    layer = _without_scaler(scaler, regression)
    if len(layer.bias) == 1:
        halves = np.array([[-0.5], [0.5]])
        layer = Linear(halves * layer.weights, halves[:, 0] * layer.bias)
    return layer, choice


def trained(build: Estimator, x: Features, targets: Integers, weights: Floats) -> Estimator:
    """The pipeline, trained on rows [N, d] of which each counts by its weight [N]."""
    from threadpoolctl import threadpool_limits

    last, _ = build.steps[-1]
    # The products of L-BFGS are small: several threads would wait for each other.
    with threadpool_limits(1, "blas"):
        return build.fit(x, targets, **{f"{last}__sample_weight": weights})


def log_probabilities(classifier: Estimator, x: Features, classes: int) -> Floats:
    """The logarithms [N, C] of the probabilities of all classes, of which some may be unknown.

    scikit-learn's `predict_log_proba` takes the logarithm of probabilities that may be rounded to
    0; here, they come from the outputs.
    """
    known = classifier.decision_function(x)  # [N, classes]
    if known.ndim == 1:
        # Of two classes, scikit-learn gives the log odds [N] of the second.
        known = np.column_stack([np.zeros_like(known), known])
    outputs = np.full((x.shape[0], classes), LOWEST)
    outputs[:, classifier.classes_] = np.maximum(log_softmax(known, axis=1), LOWEST)
    return outputs


def folds_of(targets: Integers, groups: Integers) -> list[tuple[Integers, Integers]]:
    """The numbers of the rows to train on, and of the rows to test on, for each fold.

    The folds are stratified by the label of each group's first row. Rows of a class with one group
    are always trained on. There is no fold if all classes are such.
    """
    from sklearn.model_selection import PredefinedSplit, StratifiedKFold

    _, first, group_of_row = np.unique(groups, return_index=True, return_inverse=True)
    targets_of_groups = targets[first]  # [groups]
    counts = np.bincount(targets_of_groups)  # [C]
    number = min(FOLDS, int(counts.max()))
    if number < 2 or np.count_nonzero(counts > 1) < 2:
        return []
    fold_of_group = np.full(len(first), -1)
    tested = np.flatnonzero(counts[targets_of_groups] > 1)
    splitter = StratifiedKFold(number, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        # Some folds have no row of a class with few rows.
        warnings.filterwarnings("ignore", "The least populated class")
        for fold, (_, places) in enumerate(splitter.split(tested, targets_of_groups[tested])):
            fold_of_group[tested[places]] = fold
    return list(PredefinedSplit(fold_of_group[group_of_row]).split())


def _without_scaler(scaler: Estimator, regression: Estimator) -> Linear:
    """The layer that does to vectors what the regression does to standardised vectors."""
    weights = regression.coef_ / scaler.scale_
    bias = regression.intercept_ - weights @ scaler.mean_
    return Linear(weights, bias)


def fit_several(
    vectors: Floats, chosen: Integers, groups: Integers, balanced: bool = False
) -> Linear:
    """The layer whose output for each label is the log odds that a text has the label.

    `chosen` [N, C] is 1 for each label that a row has. Each label has a regression of its own.
    """
    weights = []
    biases = []
    for has_label in chosen.T:
        if np.ptp(has_label) == 0:
            # All rows have the label, so its probability is as for one row more without the label.
            weights.append(np.zeros(vectors.shape[1]))
            biases.append(np.log(len(vectors)))
            continue
        layer, _ = fit_logistic(vectors, has_label, groups, balanced)
        weights.append(layer.weights[1] - layer.weights[0])
        biases.append(layer.bias[1] - layer.bias[0])
    return Linear(np.array(weights), np.array(biases))


def fit_ridge(vectors: Floats, scores: Floats, groups: Integers) -> Linear:
    """A ridge regression from vectors [N, d] to scores [N], whose penalty folds choose."""
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GroupKFold
    from sklearn.preprocessing import StandardScaler

    folds = min(FOLDS, len(np.unique(groups)))
    splits = list(GroupKFold(folds).split(vectors, groups=groups))
    scaler = StandardScaler().fit(vectors)
    regression = RidgeCV(alphas=PENALTIES, cv=splits, scoring="neg_mean_squared_error")
    regression.fit(scaler.transform(vectors), scores)
    layer = _without_scaler(scaler, regression)
    return Linear(layer.weights[None], np.atleast_1d(layer.bias))
