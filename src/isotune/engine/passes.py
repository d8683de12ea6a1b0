"""The passes of a step: a pass encodes some of the step's sentences, and takes their gradient backward.

A contrastive loss needs the vectors of the whole batch. Activations are needed for a few sentences at a time only.
docs/architecture.md ("A step is a list of passes") tells the order. The gradient is that of the loss of all vectors,
whatever the method does with them.

With a gradient cache (Gao et al., 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"), a
worker makes several passes, one after another. The first time, a pass keeps no activations. For its gradient, the
pass is made again, with activations. So memory does not grow with the batch, at the price of one more forward pass.
Random numbers belong to the sentences (`data/draws.py`), or on a GPU to the pass, so the second time it draws the same.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from isotune.engine.workers import Workers

Gradients = list[Tensor | None]
"""The gradient of each trained parameter of the backbone, None for 0. That of the word embeddings may be sparse."""


class Pass:
    """A forward pass of a worker, and its backward pass."""

    def __init__(self, encode: Callable[[], Tensor], kept: bool) -> None:
        """Takes what encodes the sentences, and whether activations are kept."""
        self.count = 0  # the number of vectors, after `forward`
        self._encode, self._kept = encode, kept
        self._output: Tensor | None = None

    def forward(self) -> Tensor:
        """The vectors [n, d], without a graph."""
        with torch.set_grad_enabled(self._kept and torch.is_grad_enabled()):
            output = self._encode()
        self.count = len(output)
        if output.requires_grad:
            self._output = output
        return output.detach()

    def backward(self, gradient: Tensor, parameters: Sequence[Tensor], again: bool) -> Gradients:
        """The gradients of the parameters, from the gradient of the vectors. Lets the activations go unless `again`."""
        output = self._encode() if self._output is None else self._output
        if not again:
            self._output = None
        with torch.autocast(output.device.type, enabled=False):  # as for any backward pass
            return list(torch.autograd.grad(output, parameters, gradient, again, allow_unused=True))


class Encoded(NamedTuple):
    """The vectors of views that were encoded together, and the passes of this process that made some of them."""

    leaf: Tensor  # [N, d], the vectors of all workers' passes, one pass after another
    shares: Sequence[Sequence[Pass]]  # the passes of each thread
    start: int  # the number of the first of these vectors in the leaf

    def gradients(self, of_leaf: Tensor) -> list[list[tuple[Pass, Tensor]]]:
        """The passes of each thread, with the gradients of their vectors, from the gradient of the leaf."""
        sizes = [made.count for share in self.shares for made in share]
        parts = iter(of_leaf[self.start : self.start + sum(sizes)].split(sizes))
        return [[(made, next(parts)) for made in share] for share in self.shares]


def take_back(
    groups: Sequence[Encoded], parameters: Sequence[Tensor], workers: Workers, again: bool = False
) -> None:
    """Takes the gradients at the leaves backward, and adds this process's part to the gradients of the parameters.

    Autocast, and the dropout of the model, have to be as they were. `again` says that another call follows.
    """
    of_groups = (
        group.gradients(group.leaf.grad) for group in groups if group.leaf.grad is not None
    )
    shares = [
        list(chain.from_iterable(share)) for share in zip_longest(*of_groups, fillvalue=())
    ]  # of threads
    jobs = [partial(_backward_share, share, parameters, again) for share in shares]
    for gradients in workers.run(jobs):  # added in the order of the threads, whichever ends first
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None and parameter.grad is not None:
                parameter.grad.add_(gradient)
            elif gradient is not None:
                parameter.grad = gradient.to_dense() if gradient.is_sparse else gradient


def _backward_share(
    share: list[tuple[Pass, Tensor]], parameters: Sequence[Tensor], again: bool
) -> Gradients:
    total: Gradients = [None] * len(parameters)
    while share:
        made, gradient = (
            share.pop()
        )  # the longest sentences first: later passes fit into the memory freed
        for number, of_pass in enumerate(made.backward(gradient, parameters, again)):
            before = total[number]
            if of_pass is not None:
                total[number] = of_pass if before is None else before.add_(of_pass)
    return total
