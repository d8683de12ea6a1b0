"""SentEval's classifier, trained with several weight decays at once.

SentEval trains one classifier for each fold and each weight decay, one after another. The
classifiers of a fold differ only in their decay: one seed gives all of them the same start and the
same batches. So they are trained together, step by step. The result is that of training them one by
one, but for rounding errors.

Letters: R decays, B rows of a batch, d features, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from isotune.kernels.threads import seeded

Integers = NDArray[np.int64]

# These are SentEval's settings.
SEED = 1111
"""The seed of the classifier and of the folds, unless another one is given."""

BATCH = 64

RATE = 1e-3
"""Adam's learning rate."""

EPOCHS = 4
"""The epochs between two measurements of the dev accuracy: SentEval's epoch size."""

TENACITY = 5
"""More measurements without a gain end a training."""

MAX_EPOCHS = 200

HELD_OUT = 0.05
"""The share of the training rows that say when to stop."""


@dataclass(frozen=True, eq=False)
class Probes:
    """Trained classifiers, each as it was when its dev accuracy was highest."""

    layers: list[Tensor]
    """Weight [R, out, in] and bias [R, out, 1] of one layer, or of two with a sigmoid between."""

    accuracy: Tensor
    """The accuracy [R] on the dev rows."""

    def predict(self, x: Tensor, decay: int = 0) -> Tensor:
        """The classes [N] that one of the classifiers gives to rows [N, d]."""
        layers = [layer[decay : decay + 1] for layer in self.layers]
        return _logits(x, layers)[0].argmax(0)


def train_probes(
    x: Tensor,
    y: Tensor,
    train: Integers,
    dev: Integers | None,
    decays: Sequence[float],
    classes: int,
    hidden: int = 0,
    seed: int = SEED,
) -> Probes:
    """Trains a classifier with each of R weight decays on the rows with the numbers `train` [n].

    It maps features x [N, d] to class numbers y [N], with this many hidden units; 0 means no hidden
    layer. The accuracy on the rows `dev` [m] says when to stop; None holds out a twentieth of the
    training rows for that. The seed is that of the first weights and of the order of the rows.

    The loss is the cross entropy, the optimiser is Adam with the decay as L2 on weights and biases,
    and batches have 64 rows. After every 4 epochs the dev accuracy is measured. Training ends at
    the sixth measurement without a gain, counted in all and not in a row (SentEval never sets its
    tenacity back), or past 200 epochs. It goes on until this holds for every classifier; what a
    classifier learns afterwards is not used.
    """
    random = np.random.RandomState(seed)
    if dev is None:
        train, dev = _hold_out(train, random)
    start = _initial_layers(x, hidden, classes, seed)
    layers = [layer.repeat(len(decays), 1, 1).requires_grad_() for layer in start]
    strengths = x.new_tensor(decays)[:, None, None]  # [R, 1, 1]
    adam = torch.optim.Adam(layers, RATE, fused=True)
    best = [layer.detach().clone() for layer in layers]
    best_accuracy = torch.full((len(decays),), -1, dtype=torch.float64, device=x.device)  # [R]
    # These are the measurements without a gain.
    misses = torch.zeros_like(best_accuracy)  # [R]
    for _ in range(0, MAX_EPOCHS + 1, EPOCHS):
        for _ in range(EPOCHS):
            rows = torch.from_numpy(train[random.permutation(len(train))]).to(x.device)
            batches = zip(x.index_select(0, rows).split(BATCH), y[rows].split(BATCH), strict=True)
            for x_batch, y_batch in batches:
                _set_gradients(layers, strengths, x_batch, y_batch)
                adam.step()
        accuracy = _accuracy(x, y, dev, layers)
        gained = (misses <= TENACITY) & (accuracy > best_accuracy)  # [R]
        best_accuracy = torch.where(gained, accuracy, best_accuracy)
        for best_layer, layer in zip(best, layers, strict=True):
            best_layer[gained] = layer.detach()[gained]
        misses += ~gained
        if (misses > TENACITY).all():
            break
    return Probes(best, best_accuracy)


def _hold_out(train: Integers, random: np.random.RandomState) -> tuple[Integers, Integers]:
    """Parts rows into those to train on and those that say when to stop."""
    order = train[random.permutation(len(train))]
    held_out = int(HELD_OUT * len(train))
    return order[held_out:], order[:held_out]


def _set_gradients(layers: Sequence[Tensor], strengths: Tensor, x: Tensor, y: Tensor) -> None:
    """Gives the layers the gradients of the loss of a batch, and of the weight decay."""
    count = len(strengths)
    logits = _logits(x, layers)  # [R, C, B]
    # The loss of each classifier is a mean, and the losses are added.
    loss = count * cross_entropy(logits, y.expand(count, -1))
    gradients = torch.autograd.grad(loss, layers)
    for layer, gradient in zip(layers, gradients, strict=True):
        layer.grad = torch.addcmul(gradient, strengths, layer.detach())


def _initial_layers(x: Tensor, hidden: int, classes: int, seed: int) -> list[Tensor]:
    """The first weight [out, in] and bias [out, 1] of each layer."""
    sizes = [x.shape[1], classes]
    if hidden:
        sizes.insert(1, hidden)
    with seeded(seed):
        linears = [nn.Linear(*size) for size in pairwise(sizes)]
    layers = []
    for linear in linears:
        layers += [linear.weight.detach().to(x), linear.bias[:, None].detach().to(x)]
    return layers


def _logits(x: Tensor, layers: Sequence[Tensor]) -> Tensor:
    """The logits [R, C, B] of rows [B, d]."""
    weight, bias, *second = layers
    # One product serves all classifiers.
    products = weight.flatten(0, 1) @ x.T  # [R out, B]
    result: Tensor = products.unflatten(0, weight.shape[:2]) + bias  # [R, out, B]
    if second:
        weight, bias = second
        result = weight @ result.sigmoid() + bias
    return result


@torch.no_grad()
def _accuracy(x: Tensor, y: Tensor, dev: Integers, layers: Sequence[Tensor]) -> Tensor:
    """The accuracy [R] on the rows with the numbers `dev` [m]."""
    rows = torch.from_numpy(dev).to(x.device)
    right = _logits(x[rows], layers).argmax(1) == y[rows]  # [R, m]
    return right.double().mean(1)
