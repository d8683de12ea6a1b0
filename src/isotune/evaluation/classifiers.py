"""Classifiers on frozen vectors: what they are trained, chosen and tested on.

A task has the part train alone, or train and test, or train, dev and test. With train alone every row is tested once,
by a classifier that has not seen it. All folds are stratified, and shuffled by SentEval's seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotune.evaluation.probes import SEED, Fold, Integers, Probes, train_probes

FOLDS = 10  # of SentEval's full evaluation; its quick settings have 5
DECAYS = (1e-5, 1e-4, 1e-3, 1e-2)  # SentEval's grid for a classifier trained by Adam


class Labelled(NamedTuple):
    """Rows of features with their classes.

    Attributes:
        features: [N, d] float32.
        targets: [N] int64, from 0.
    """

    features: Tensor
    targets: Integers


class Outcome(NamedTuple):
    """What a classifier did.

    Attributes:
        predictions: [N] int64, the classes of the test rows, or where there are none of all rows.
        protocol: what was trained, chosen and tested on.
        dev_accuracy: what the regularisation was chosen by; None if it is fixed.
        regularisation: of each classifier that was tested.
    """

    predictions: Integers
    protocol: str
    dev_accuracy: float | None
    regularisation: tuple[float, ...]


class Classifier(Protocol):
    """Trains, chooses and tests."""

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        ...

    def __call__(self, parts: Mapping[str, Labelled]) -> Outcome:
        """Does so on the parts of a task, by name."""
        ...


@dataclass(frozen=True)
class Logistic:
    """scikit-learn's logistic regression (L2, L-BFGS) on standardised features.

    Attributes:
        c: how little it is regularised: scikit-learn's C.
    """

    c: float = 0.01  # measured: docs/evaluation.md

    @property
    def title(self) -> str:
        """Also says the regularisation."""
        return f"logistic regression, standardised features, C = {self.c:g}"

    def __call__(self, parts: Mapping[str, Labelled]) -> Outcome:
        """Nothing is chosen, so a part dev is not looked at."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import cross_val_predict
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=self.c, max_iter=1000))
        x, y = parts["train"].features.cpu().numpy(), parts["train"].targets
        if "test" in parts:
            predictions = classifier.fit(x, y).predict(parts["test"].features.cpu().numpy())
            protocol = "trained on train, tested on test"
        else:
            predictions = cross_val_predict(classifier, x, y, cv=_folds(y))
            protocol = f"{FOLDS} folds"
        return Outcome(predictions, protocol, None, (self.c,))


@dataclass(frozen=True)
class SentEval:
    """SentEval's own classifier and protocol (Conneau and Kiela 2018; its tools/validation.py, tools/classifier.py).

    Without a split, 10 folds, for each of which the weight decay is chosen by 10 folds of what it trains on. With test
    rows alone, it is chosen by 10 folds of the training rows. Then a classifier is trained with it on all but a
    twentieth of them, which says when to stop. With dev rows, these do both.

    Attributes:
        hidden: units of a hidden layer; 0 is none.
    """

    hidden: int = 0

    @property
    def title(self) -> str:
        """Also says the hidden layer."""
        return f"SentEval's classifier, {self.hidden or 'no'} hidden units"

    def __call__(self, parts: Mapping[str, Labelled]) -> Outcome:
        """It is trained where the features are."""
        x = torch.cat([part.features for part in parts.values()])  # [N, d]
        y = np.concatenate([part.targets for part in parts.values()])  # [N]
        ends = np.cumsum([len(part.targets) for part in parts.values()])
        rows = dict(zip(parts, np.split(np.arange(len(y)), ends[:-1]), strict=True))
        if "dev" in rows:
            return self._by_dev_rows(x, y, **rows)
        return self._by_folds(x, y, [(rows["train"], rows["test"])] if "test" in rows else _folds(y))

    def _by_dev_rows(self, x: Tensor, y: Integers, train: Integers, dev: Integers, test: Integers) -> Outcome:
        probes = self._train(x, y, [Fold.of(train, dev)], [DECAYS])
        (best,), (place,) = _choose(probes.accuracy)
        predictions = probes.predict(x[test], decay=place).cpu().numpy()
        return Outcome(predictions, "weight decay chosen on dev, tested on test", best, (DECAYS[place],))

    def _by_folds(self, x: Tensor, y: Integers, trainings: Sequence[tuple[Integers, Integers]]) -> Outcome:
        """The outcome of trainings, each of which has the rows that are seen and those that are tested."""
        inner = [Fold.of(seen[train], seen[dev]) for seen, _ in trainings for train, dev in _folds(y[seen])]
        accuracy = self._train(x, y, inner, [DECAYS] * len(inner)).accuracy  # [trainings x folds, decays]
        best, places = _choose(accuracy.unflatten(0, (len(trainings), FOLDS)).mean(1))
        decays = [DECAYS[place] for place in places]
        probes = self._train(x, y, [Fold.holding_out(seen) for seen, _ in trainings], [[decay] for decay in decays])
        predictions = np.empty_like(y)
        for fold, (_, test) in enumerate(trainings):
            predictions[test] = probes.predict(x[test], fold).cpu().numpy()
        tested = np.sort(np.concatenate([test for _, test in trainings]))
        protocol = f"weight decay chosen by {FOLDS} folds, tested " + (
            "on test" if len(trainings) == 1 else f"by {len(trainings)} folds around these"
        )
        return Outcome(predictions[tested], protocol, float(np.mean(best)), tuple(decays))

    def _train(self, x: Tensor, y: Integers, folds: Sequence[Fold], decays: Sequence[Sequence[float]]) -> Probes:
        targets = torch.from_numpy(y).to(x.device)
        grid = torch.tensor(decays, device=x.device)  # [F, R]
        return train_probes(x, targets, folds, grid, int(y.max()) + 1, self.hidden)


def _choose(accuracy: Tensor) -> tuple[NDArray[np.float64], list[int]]:
    """The best of each row of [K, decays] and its place: as in SentEval the first, where two decimals are equal."""
    rounded = (100 * accuracy.cpu().numpy()).round(2)
    places = rounded.argmax(1)
    return rounded.max(1) / 100, places.tolist()


def _folds(targets: Integers) -> list[tuple[Integers, Integers]]:
    """Rows to train on and rows held out, for each fold."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    return list(folds.split(np.zeros(len(targets)), targets))
