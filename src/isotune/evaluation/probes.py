"""SentEval's classifier, many of them trained as one batched model.

What SentEval trains one after another, over its folds and its grid of regularisations, differs in rows and in weight
decay only: the same seed gives each the same start, and those on equally many rows the same permutations. So the
classifiers of a fold, one for each decay, see the same batches, and folds that take equally many steps an epoch go step
by step together. What comes out is what training one by one gives, to rounding errors.

Letters: F folds, R decays, B rows of a batch, d features, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Integers = NDArray[np.int64]

SEED = 1111  # SentEval's, of the classifier and of the folds
BATCH = 64
EPOCHS = 4  # between two looks at the dev rows: its epoch size
TENACITY = 5
MAX_EPOCHS = 200
RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8  # Adam's


@dataclass(frozen=True, eq=False)
class Fold:
    """What a classifier is trained on, and what says when it is at its best.

    Attributes:
        train: row numbers [n].
        dev: row numbers [m].
        random: gives the permutations of the epochs.
    """

    train: Integers
    dev: Integers
    random: np.random.RandomState

    @classmethod
    def of(cls, train: Integers, dev: Integers) -> Fold:
        """With dev rows of its own."""
        return cls(train, dev, np.random.RandomState(SEED))

    @classmethod
    def holding_out(cls, train: Integers) -> Fold:
        """With a twentieth of the training rows as dev rows."""
        random = np.random.RandomState(SEED)
        order = train[random.permutation(len(train))]
        held = int(0.05 * len(train))
        return cls(order[held:], order[:held], random)


@dataclass(frozen=True, eq=False)
class Probes:
    """Trained classifiers, each as it was when its dev accuracy was highest.

    Attributes:
        layers: weight [F, R, out, in] and bias [F, R, out, 1] of a layer, or of two with a sigmoid between.
        accuracy: [F, R] on the dev rows.
    """

    layers: list[Tensor]
    accuracy: Tensor

    def predict(self, x: Tensor, fold: int = 0, decay: int = 0) -> Tensor:
        """The classes [N] of rows [N, d], by one of the classifiers."""
        layers = [layer[fold : fold + 1, decay : decay + 1] for layer in self.layers]
        return _logits(x[None], layers)[0, 0].argmax(0)


def train_probes(x: Tensor, y: Tensor, folds: Sequence[Fold], decays: Tensor, classes: int, hidden: int = 0) -> Probes:
    """Trains a classifier for each fold and each of its decays.

    Cross entropy; Adam, with the decay as L2 on weights and biases; batches of 64. After every 4 epochs the dev
    accuracy is taken. Training ends when it has not risen for the sixth time (SentEval's tenacity is never set back),
    or past 200 epochs.

    Args:
        x: [N, d] features.
        y: [N] class numbers.
        folds: F of them.
        decays: [F, R].
        classes: C.
        hidden: units of a hidden layer; 0 is none.
    """
    layers = [layer.expand(*decays.shape, -1, -1).clone() for layer in _start(x, hidden, classes)]
    accuracy = torch.zeros_like(decays, dtype=torch.float64)
    steps = [-(-len(fold.train) // BATCH) for fold in folds]
    for count in set(steps):
        together = [place for place, own in enumerate(steps) if own == count]
        parts = [layer[together] for layer in layers]
        training = _Training(x, y, [folds[place] for place in together], decays[together], parts)
        training.run()
        accuracy[together] = training.accuracy
        for layer, best in zip(layers, training.best, strict=True):
            layer[together] = best
    return Probes(layers, accuracy)


class _Training:
    """Folds that take equally many steps an epoch, trained together.

    Attributes:
        best: the layers at the best look so far.
        accuracy: [F, R] at that look.
        misses: [F, R] looks without a gain.
        running: [F, R] whether a classifier is still trained. Others of a fold that is are moved on with it, in vain.
        layers: of the folds in which one is running, as are `moments` and `decays`.
    """

    def __init__(self, x: Tensor, y: Tensor, folds: Sequence[Fold], decays: Tensor, layers: list[Tensor]) -> None:
        self.x, self.y, self.folds = x, y, folds
        self.best = [layer.clone() for layer in layers]
        self.accuracy = torch.full_like(decays, -1, dtype=torch.float64)
        self.misses = torch.zeros_like(decays)
        self.running = torch.ones_like(decays, dtype=torch.bool)
        self.layers = [layer.requires_grad_() for layer in layers]
        self.moments = [(torch.zeros_like(layer), torch.zeros_like(layer)) for layer in layers]
        self.decays = decays[:, :, None, None]  # as the layers
        self.step = 0

    def run(self) -> None:
        """Trains until no classifier is running."""
        for _ in range(0, MAX_EPOCHS + 1, EPOCHS):
            places = self.running.any(1).nonzero()[:, 0]  # of the folds in training
            if not len(places):
                break
            folds = [self.folds[i] for i in places.tolist()]
            for _ in range(EPOCHS):
                orders = [fold.train[fold.random.permutation(len(fold.train))] for fold in folds]
                for rows, weights in _batches(orders, self.x):
                    self._update(rows, weights)
            self._look(places, _accuracy(self.x, self.y, folds, self.layers))

    def _update(self, rows: Tensor, weights: Tensor) -> None:
        """A step of Adam on a batch [F, B]; the weights of a fold's rows sum to 1, and are 0 for padding."""
        logits = _logits(_take(self.x, rows), self.layers).flatten(0, 1)  # [F R, C, B]
        targets = self.y[rows].repeat_interleave(self.decays.shape[1], 0)  # [F R, B]
        losses = cross_entropy(logits, targets, reduction="none") * weights.repeat_interleave(self.decays.shape[1], 0)
        gradients = torch.autograd.grad(losses.sum(), self.layers)
        self.step += 1
        with torch.no_grad():
            for layer, gradient, (first, second) in zip(self.layers, gradients, self.moments, strict=True):
                gradient = torch.addcmul(gradient, self.decays, layer)
                first.lerp_(gradient, 1 - BETAS[0])
                second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
                scale = (second / (1 - BETAS[1] ** self.step)).sqrt_().add_(EPSILON)
                layer.addcdiv_(first, scale, value=-RATE / (1 - BETAS[0] ** self.step))

    @torch.no_grad()
    def _look(self, places: Tensor, accuracy: Tensor) -> None:
        """Keeps what is better, ends what is over, and takes out folds in which all is over."""
        running = self.running[places]
        gained = running & (accuracy > self.accuracy[places])  # [F, R]
        self.accuracy[places] = torch.where(gained, accuracy, self.accuracy[places])
        for best, layer in zip(self.best, self.layers, strict=True):
            best[places] = torch.where(gained[:, :, None, None], layer, best[places])
        running &= gained | (self.misses[places] < TENACITY)
        self.misses[places] += ~gained
        self.running[places] = running
        if not (kept := running.any(1)).all():
            self.layers = [layer[kept].detach().requires_grad_() for layer in self.layers]
            self.moments = [(first[kept], second[kept]) for first, second in self.moments]
            self.decays = self.decays[kept]


def _start(x: Tensor, hidden: int, classes: int) -> list[Tensor]:
    """The layers that every classifier starts with: torch's, from the seed."""
    sizes = [x.shape[1], hidden, classes] if hidden else [x.shape[1], classes]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        linears = [nn.Linear(*size) for size in pairwise(sizes)]
    parts = [part for linear in linears for part in (linear.weight, linear.bias[:, None])]
    return [part.detach().to(x) for part in parts]  # [out, in], [out, 1]


def _logits(x: Tensor, layers: Sequence[Tensor]) -> Tensor:
    """[F, R, C, B] of rows [F, B, d]."""
    weight, bias, *rest = layers
    result: Tensor = (weight.flatten(1, 2) @ x.mT).unflatten(1, weight.shape[1:3]) + bias
    if rest:
        weight, bias = rest
        result = weight @ result.sigmoid() + bias
    return result


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """Rows [F, B, d] of x [N, d]: what x[rows] gives, some times as fast."""
    return x.index_select(0, rows.flatten()).view(*rows.shape, -1)


@torch.no_grad()
def _accuracy(x: Tensor, y: Tensor, folds: Sequence[Fold], layers: Sequence[Tensor]) -> Tensor:
    """[F, R] on the dev rows."""
    right = torch.zeros(layers[0].shape[:2], dtype=torch.float64, device=x.device)
    for rows, weights in _batches([fold.dev for fold in folds], x):
        hits = _logits(_take(x, rows), layers).argmax(2) == y[rows][:, None]  # [F, R, B]
        right += (hits & (weights > 0)[:, None]).sum(2)
    return right / torch.tensor([len(fold.dev) for fold in folds], device=x.device)[:, None]


def _batches(orders: Sequence[Integers], x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows [F, B] of each fold's order, a batch at a time, and weights [F, B] for the mean over a batch.

    Shorter orders are filled up with row 0 of weight 0.
    """
    lengths = torch.tensor([len(order) for order in orders])
    padded = torch.zeros(len(orders), int(lengths.max()), dtype=torch.int64)  # [F, n]
    for row, order in zip(padded, orders, strict=True):
        row[: len(order)] = torch.from_numpy(order)
    there = (torch.arange(padded.shape[1]) < lengths[:, None]).to(x)
    for rows, mask in zip(padded.to(x.device).split(BATCH, 1), there.split(BATCH, 1), strict=True):
        yield rows, mask / mask.sum(1, keepdim=True).clamp_min(1)
