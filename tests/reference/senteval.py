"""SentEval's classifier and protocol, one after another, with torch's layers and optimiser."""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn

SEED = 1111
DECAYS = (1e-5, 1e-4, 1e-3, 1e-2)


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return sum(
            int(model(row).argmax()) == int(label) for row, label in zip(x, y, strict=True)
        ) / len(y)


def fit(
    x: Tensor,
    y: Tensor,
    decay: float,
    classes: int,
    hidden: int,
    dev: tuple[Tensor, Tensor] | None = None,
    seed: int = SEED,
) -> tuple[nn.Module, float]:
    """The classifier at its best dev accuracy, and that accuracy.

    Without dev rows, it holds out a twentieth.
    """
    random = np.random.RandomState(seed)
    torch.manual_seed(seed)
    width = x.shape[1]
    if hidden:
        model = nn.Sequential(nn.Linear(width, hidden), nn.Sigmoid(), nn.Linear(hidden, classes))
    else:
        model = nn.Sequential(nn.Linear(width, classes))
    model = model.to(x.dtype)
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=decay)
    if dev is None:
        order, held_out = random.permutation(len(x)), int(0.05 * len(x))
        dev = x[order[:held_out]], y[order[:held_out]]
        x, y = x[order[held_out:]], y[order[held_out:]]
    best, best_model, misses, epochs = -1.0, model, 0, 0
    while epochs <= 200:
        for _ in range(4):
            order = torch.from_numpy(random.permutation(len(x)))
            for start in range(0, len(x), 64):
                rows = order[start : start + 64]
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
        epochs += 4
        now = accuracy(model, *dev)
        if now > best:
            best, best_model = now, copy.deepcopy(model)
        else:
            if misses >= 5:
                break
            misses += 1
    return best_model, best


def chosen(scores: Sequence[float]) -> float:
    """The decay with the best score; of equal scores, the first."""
    rounded = [round(100 * score, 2) for score in scores]
    return DECAYS[rounded.index(max(rounded))]


def best_by_folds(
    x: Tensor,
    y: Tensor,
    classes: int,
    hidden: int,
    folds: int,
    seed: int = SEED,
    shuffled: int = SEED,
) -> float:
    """The decay with the best mean dev accuracy over folds, which the seed `shuffled` makes."""
    scores = []
    for decay in DECAYS:
        each = []
        for train, dev in StratifiedKFold(folds, shuffle=True, random_state=shuffled).split(x, y):
            each.append(fit(x[train], y[train], decay, classes, hidden, (x[dev], y[dev]), seed)[1])
        scores.append(sum(each) / folds)
    return chosen(scores)


def by_folds(
    x: Tensor, y: Tensor, classes: int, hidden: int, folds: int, seed: int = SEED
) -> tuple[list[int], list[float]]:
    """The prediction for each row, and the decay of each fold.

    A row is predicted by the classifier of the fold that has not seen it.
    """
    predictions, decays = [-1] * len(y), []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=SEED).split(x, y):
        decay = best_by_folds(x[train], y[train], classes, hidden, folds, seed)
        model, _ = fit(x[train], y[train], decay, classes, hidden, seed=seed)
        for row in test:
            predictions[row] = int(model(x[row]).argmax())
        decays.append(decay)
    return predictions, decays
