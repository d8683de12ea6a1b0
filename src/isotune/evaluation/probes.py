"""SentEval's classifier: many of them trained as one batched model.

SentEval trains one classifier for each fold and each weight decay, one after another. These classifiers differ only in
their rows and their decay: one seed gives all of them the same start, and folds of equal size the same permutations. So
all decays of a fold see the same batches, and folds with equally many steps an epoch are trained together, step by
step. The result is that of training the classifiers one by one, but for rounding errors.

Letters: F folds, R decays, B rows of a batch, d features, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.optim.adam import adam

from isotune.kernels.threads import drawing

Integers = NDArray[np.int64]

# SentEval's settings
SEED = 1111  # of the classifier and of the folds, unless another one is given
BATCH = 64
EPOCHS = 4  # between two measurements of the dev accuracy: its epoch size
TENACITY = 5
MAX_EPOCHS = 200
ADAM: dict[str, Any] = dict(
    lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False, fused=True
)


@dataclass(frozen=True, eq=False)
class Fold:
    """The rows of one training, given by their numbers."""

    train: Integers  # [n]
    dev: Integers  # [m], the rows whose accuracy says when to stop
    random: np.random.RandomState  # permutes the training rows, epoch by epoch

    @classmethod
    def holding_out(cls, train: Integers, seed: int) -> Fold:
        """A fold that holds out a twentieth of the training rows as dev rows."""
        random = np.random.RandomState(seed)
        order = train[random.permutation(len(train))]
        held_out = int(0.05 * len(train))
        return cls(order[held_out:], order[:held_out], random)


@dataclass(frozen=True, eq=False)
class Probes:
    """Trained classifiers, each as it was when its dev accuracy was highest."""

    layers: list[Tensor]  # weight [F, R, out, in], bias [F, R, out, 1]; of one layer, or of two with a sigmoid between
    accuracy: Tensor  # [F, R] on the dev rows

    def predict(self, x: Tensor, fold: int = 0, decay: int = 0) -> Tensor:
        """The classes [N] that one of the classifiers gives to rows [N, d]."""
        layers = [layer[fold : fold + 1, decay : decay + 1] for layer in self.layers]
        return _logits(x[None], layers)[0, 0].argmax(0)


def train_probes(
    x: Tensor, y: Tensor, folds: Sequence[Fold], decays: Tensor, classes: int, hidden: int = 0, seed: int = SEED
) -> Probes:
    """Trains a classifier for each fold and each of the fold's weight decays [F, R].

    It maps features x [N, d] to class numbers y [N], with this many hidden units; 0 means no hidden layer. The seed is
    that of the first weights.

    The loss is the cross entropy, the optimiser is Adam with the decay as L2 on weights and biases, and batches have 64
    rows. After every 4 epochs the dev accuracy is measured. Training ends at the sixth measurement without a gain,
    counted in all and not in a row (SentEval never sets its tenacity back), or past 200 epochs.
    """
    layers = [layer.expand(*decays.shape, -1, -1).clone() for layer in _initial_layers(x, hidden, classes, seed)]
    accuracy = torch.zeros_like(decays, dtype=torch.float64)
    steps = [-(-len(fold.train) // BATCH) for fold in folds]  # an epoch
    for count in set(steps):
        group = [number for number in range(len(folds)) if steps[number] == count]
        started = [layer[group].requires_grad_() for layer in layers]
        best, accuracy[group] = _train_together(x, y, [folds[i] for i in group], decays[group], started)
        for layer, part in zip(layers, best, strict=True):
            layer[group] = part
    return Probes(layers, accuracy)


def _train_together(
    x: Tensor, y: Tensor, folds: Sequence[Fold], decays: Tensor, layers: list[Tensor]
) -> tuple[list[Tensor], Tensor]:
    """Each classifier's layers at its best measurement, and the accuracy [F, R] there.

    The folds have equally many steps an epoch. A fold is trained as long as one of its classifiers is; updates of its
    other classifiers are not used.
    """
    best = [layer.detach().clone() for layer in layers]
    best_accuracy = torch.full_like(decays, -1, dtype=torch.float64)
    misses = torch.zeros_like(decays)  # measurements without a gain; more than `TENACITY` end a training
    places = torch.arange(len(folds), device=x.device)  # of the folds that are still trained, as are the layers
    averages, squares = [torch.zeros_like(layer) for layer in layers], [torch.zeros_like(layer) for layer in layers]
    steps = [torch.zeros((), device=x.device) for _ in layers]
    for _ in range(0, MAX_EPOCHS + 1, EPOCHS):
        trained = [folds[i] for i in places.tolist()]
        for _ in range(EPOCHS):
            orders = [fold.train[fold.random.permutation(len(fold.train))] for fold in trained]
            for rows, weights in _batches(orders, x):
                gradients = _gradients(layers, x, y, rows, weights, decays[places])
                with torch.no_grad():
                    adam(layers, gradients, averages, squares, [], steps, **ADAM)
        accuracy = _accuracy(x, y, trained, layers)
        gained = (misses[places] <= TENACITY) & (accuracy > best_accuracy[places])  # [F, R]
        best_accuracy[places] = torch.where(gained, accuracy, best_accuracy[places])
        for kept, layer in zip(best, layers, strict=True):
            kept[places] = torch.where(gained[:, :, None, None], layer.detach(), kept[places])
        misses[places] += ~gained
        unfinished = (misses[places] <= TENACITY).any(1)
        places = places[unfinished]
        if not len(places):
            break
        layers = [layer.detach()[unfinished].requires_grad_() for layer in layers]
        averages = [part[unfinished] for part in averages]
        squares = [part[unfinished] for part in squares]
    return best, best_accuracy


def _gradients(
    layers: Sequence[Tensor], x: Tensor, y: Tensor, rows: Tensor, weights: Tensor, decays: Tensor
) -> list[Tensor]:
    """The layers' gradients of the loss on a batch [F, B] of rows with weights, with L2 of strength `decays` [F, R]."""
    logits = _logits(_take(x, rows), layers).flatten(0, 1)  # [F R, C, B]
    targets = y[rows].repeat_interleave(decays.shape[1], 0)  # [F R, B]
    losses = cross_entropy(logits, targets, reduction="none") * weights.repeat_interleave(decays.shape[1], 0)
    gradients = torch.autograd.grad(losses.sum(), layers)
    decay = decays[:, :, None, None]  # Adam's own is one for all
    return [torch.addcmul(part, decay, layer.detach()) for part, layer in zip(gradients, layers, strict=True)]


def _initial_layers(x: Tensor, hidden: int, classes: int, seed: int) -> list[Tensor]:
    sizes = [x.shape[1], hidden, classes] if hidden else [x.shape[1], classes]
    with drawing(seed):
        linears = [nn.Linear(*size) for size in pairwise(sizes)]
    tensors = [tensor for linear in linears for tensor in (linear.weight, linear.bias[:, None])]
    return [tensor.detach().to(x) for tensor in tensors]  # [out, in], [out, 1]


def _logits(x: Tensor, layers: Sequence[Tensor]) -> Tensor:
    """The logits [F, R, C, B] of rows [F, B, d]."""
    weight, bias, *rest = layers
    result: Tensor = (weight.flatten(1, 2) @ x.mT).unflatten(1, weight.shape[1:3]) + bias
    if rest:
        weight, bias = rest
        result = weight @ result.sigmoid() + bias
    return result


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """Rows [F, B, d] of x [N, d]: the same as x[rows], and several times as fast."""
    return x.index_select(0, rows.flatten()).view(*rows.shape, -1)


@torch.no_grad()
def _accuracy(x: Tensor, y: Tensor, folds: Sequence[Fold], layers: Sequence[Tensor]) -> Tensor:
    right = torch.zeros(layers[0].shape[:2], dtype=torch.float64, device=x.device)
    for rows, weights in _batches([fold.dev for fold in folds], x):
        hits = _logits(_take(x, rows), layers).argmax(2) == y[rows][:, None]  # [F, R, B]
        right += (hits & (weights > 0)[:, None]).sum(2)
    return right / torch.tensor([len(fold.dev) for fold in folds], device=x.device)[:, None]


def _batches(orders: Sequence[Integers], x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields batches [F, B] of row numbers, with weights [F, B] for the mean; padding is row 0 at weight 0."""
    lengths = torch.tensor([len(order) for order in orders])
    padded = pad_sequence([torch.from_numpy(order) for order in orders], batch_first=True)  # [F, n]
    present = (torch.arange(padded.shape[1]) < lengths[:, None]).to(x)
    for rows, mask in zip(padded.to(x.device).split(BATCH, 1), present.split(BATCH, 1), strict=True):
        yield rows, mask / mask.sum(1, keepdim=True).clamp_min(1)
