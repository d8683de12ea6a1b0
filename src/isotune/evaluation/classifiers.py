"""Classifiers on frozen vectors: how they are trained, chosen and tested.

A task has the part train; train and test; or train, dev and test. With train alone, the rows are
split into folds, and each row is tested by a classifier that was trained without the row's fold.
All folds are stratified, and shuffled by SentEval's seed. Copies of a text stand in one fold where
a task says which rows are copies.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.evaluation.copies import Groups
from isotune.evaluation.probes import SEED, Integers, Probes, train_probes
from isotune.evaluation.vectors import Floats

FOLDS = 10
"""The folds of SentEval's full evaluation; its quick settings have 5."""

DECAYS = (1e-5, 1e-4, 1e-3, 1e-2)
"""SentEval's grid of weight decays."""

Rows: TypeAlias = tuple[Tensor, Integers]
"""The N rows of a part: their features [N, d] float32, and their class numbers [N], from 0."""

Fold: TypeAlias = tuple[Integers, Integers]
"""The numbers of the rows to train on, and of the rows to test on."""


class ClassifierResult(NamedTuple):
    """The predictions of a classifier, and how it was trained."""

    predictions: Integers
    """The classes [N] of the test rows; of all rows if the task has no part test."""

    protocol: str
    """What the classifier was trained, chosen and tested on."""

    dev_accuracy: float | None
    """The accuracy by which the regularisation was chosen; None if the regularisation is fixed."""

    regularisation: tuple[float, ...]
    """The regularisation of each classifier that was tested."""

    chances: Floats | None = None
    """How probable the classifier finds each prediction, [N]; None if it does not say."""


class Classifier(Protocol):
    """A classifier, and how it is chosen and tested."""

    @property
    def title(self) -> str:
        """The classifier, in words."""

    def __call__(self, parts: Mapping[str, Rows], /) -> ClassifierResult:
        """Trains, chooses and tests on the parts that a task has."""


@dataclass(frozen=True)
class Logistic:
    """scikit-learn's logistic regression (L2, L-BFGS) on standardised features."""

    c: float = 0.01
    """scikit-learn's C, the inverse of the regularisation's strength.

    Measured in docs/evaluation.md.
    """

    @property
    def title(self) -> str:
        """The classifier and its regularisation."""
        return f"logistic regression, standardised features, C = {self.c:g}"

    def __call__(self, parts: Mapping[str, Rows], groups: Groups | None = None) -> ClassifierResult:
        """Trains and tests as `predict_other_rows` does."""
        arrays = {name: (features.cpu().numpy(), y) for name, (features, y) in parts.items()}
        predictions, protocol = predict_other_rows(self._predict, arrays, groups)
        return ClassifierResult(predictions, protocol, None, (self.c,))

    def _predict(self, x: Floats, y: Integers, tested: Floats) -> Integers:
        """The classes of tested rows [M, d], by training rows [N, d] and their classes [N]."""
        from isotune.methods.regression import logistic, trained

        weights = np.ones(len(y))
        return trained(logistic(self.c), x, y, weights).predict(tested)


def predict_other_rows(
    predict: Callable[[Any, Integers, Any], Integers],
    parts: Mapping[str, tuple[NDArray[Any], Integers]],
    groups: Groups | None = None,
) -> tuple[Integers, str]:
    """The classes that a classifier gives to rows that it was not trained on, and the protocol.

    The classifier is trained on the part train and tested on test, or by folds of train if there
    is no test. A part dev is ignored.

    Args:
        predict: trains a classifier on rows [N, ...] of the classes [N], two or more of them, and
            gives the classes [M] of other rows [M, ...].
        parts: the rows and their classes by the name of the part.
        groups: the groups of the rows of train, which stand in one fold each.
    """
    x, y = parts["train"]
    if "test" in parts:
        tested, _ = parts["test"]
        return predict(x, y, tested), "trained on train, tested on test"
    predictions = np.empty_like(y)
    for seen, test in _folds_of_groups(y, groups):
        if np.ptp(y[seen]) == 0:
            # A class that stands in one fold alone may leave a single class for the training.
            predictions[test] = y[seen[0]]
        else:
            predictions[test] = predict(x[seen], y[seen], x[test])
    return predictions, f"{FOLDS} folds"


@dataclass(frozen=True)
class SentEval:
    """SentEval's own classifier and protocol (Conneau and Kiela 2018).

    They are those of its tools/validation.py and tools/classifier.py.

    - With train alone: 10 folds; for each, the weight decay is chosen by 10 inner folds of the
      fold's training rows.
    - With train and test: the weight decay is chosen by 10 folds of the training rows.
    - In both cases, a classifier is then trained with the chosen decay on 19 of 20 training rows;
      the accuracy on the rest says when to stop.
    - With dev rows, these choose the weight decay and say when to stop.
    """

    hidden: int = 0
    """The units of a hidden layer; 0 means no hidden layer."""

    seed: int = SEED
    """The seed of the classifiers, and of the folds of a task with train and test.

    SentEval shuffles all other folds by 1111.
    """

    @property
    def title(self) -> str:
        """The classifier, its hidden layer, and its seed if that is another than SentEval's."""
        title = f"SentEval's classifier, {self.hidden or 'no'} hidden units"
        if self.seed != SEED:
            title += f", seed {self.seed}"
        return title

    def __call__(self, parts: Mapping[str, Rows]) -> ClassifierResult:
        """Train, choose and test on the device of the features."""
        features, targets = zip(*parts.values(), strict=True)
        x = torch.cat(features)  # [N, d]
        y = np.concatenate(targets)  # [N]
        ends = np.cumsum([len(part) for part in targets])
        numbers = np.split(np.arange(len(y)), ends[:-1])
        rows = dict(zip(parts, numbers, strict=True))
        train = partial(
            train_probes,
            x,
            torch.from_numpy(y).to(x.device),
            classes=int(y.max()) + 1,
            hidden=self.hidden,
            seed=self.seed,
        )
        if "dev" in rows:
            return _by_dev(train, x, rows)
        if "test" in rows:
            folds = [(rows["train"], rows["test"])]
            return _by_inner_folds(train, x, y, folds, self.seed, "on test")
        around = f"by {FOLDS} folds around these"
        return _by_inner_folds(train, x, y, _folds(y), SEED, around)


def _by_dev(
    train: Callable[..., Probes], x: Tensor, rows: Mapping[str, Integers]
) -> ClassifierResult:
    """Chooses the weight decay by the dev rows, and tests this classifier."""
    probes = train(rows["train"], rows["dev"], DECAYS)
    best, place = _choose(probes.accuracy)
    predictions = probes.predict(x[rows["test"]], place).cpu().numpy()
    protocol = "weight decay chosen on dev, tested on test"
    return ClassifierResult(predictions, protocol, best, (DECAYS[place],))


def _by_inner_folds(
    train: Callable[..., Probes],
    x: Tensor,
    y: Integers,
    folds: Sequence[Fold],
    seed: int,
    tested: str,
) -> ClassifierResult:
    """Chooses the weight decay of each fold by folds of its training rows.

    A classifier with this decay is then trained on these rows, and tested on the fold's other rows.
    """
    predictions = np.empty_like(y)
    highest = []
    decays = []
    for seen, test in folds:
        accuracies = []
        for fold, dev in _folds(y[seen], seed):
            accuracies.append(train(seen[fold], seen[dev], DECAYS).accuracy)
        best, place = _choose(torch.stack(accuracies).mean(0))
        highest.append(best)
        decays.append(DECAYS[place])
        predictions[test] = train(seen, None, [DECAYS[place]]).predict(x[test]).cpu().numpy()
    tested_rows = np.sort(np.concatenate([test for _, test in folds]))
    protocol = f"weight decay chosen by {FOLDS} folds, tested {tested}"
    mean = float(np.mean(highest))
    return ClassifierResult(predictions[tested_rows], protocol, mean, tuple(decays))


def _choose(accuracy: Tensor) -> tuple[float, int]:
    """The best accuracy of [decays], in two decimals of per cent, and its first place.

    SentEval rounds so too.
    """
    rounded = (100 * accuracy.cpu().numpy()).round(2)
    return float(rounded.max()) / 100, int(rounded.argmax())


def _folds_of_groups(targets: Integers, groups: Groups | None) -> list[Fold]:
    """Folds of the groups' first rows, by their classes.

    Each further row stands in the fold of its group.
    """
    if groups is None:
        return _folds(targets)
    _, first = np.unique(groups, return_index=True)
    folds = []
    for seen, test in _folds(targets[first]):
        rows_seen = np.flatnonzero(np.isin(groups, seen))
        rows_tested = np.flatnonzero(np.isin(groups, test))
        folds.append((rows_seen, rows_tested))
    return folds


def _folds(targets: Integers, seed: int = SEED) -> list[Fold]:
    """Stratified folds of rows with these classes [N]."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # Some folds have no row of a class with few rows.
        warnings.filterwarnings("ignore", "The least populated class")
        return list(folds.split(np.zeros(len(targets)), targets))
