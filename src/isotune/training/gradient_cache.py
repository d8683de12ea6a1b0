"""Gradient cache (Gao et al., 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup").

A contrastive loss needs the vectors of the whole batch, but the activations behind them only one chunk at a time:

1. every chunk of sentences is encoded without a graph;
2. the loss of all vectors is computed, and its gradient at the vectors kept: the cache;
3. chunk after chunk is encoded once more, now with a graph, through which its part of the cache goes back.

The gradient is that of the loss of all vectors, whatever the method does with them, for a third more compute. Each pass
is seeded by itself, so that it draws the same dropout and the same augmentations when it is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from isotune.methods.method import View


class Pass:
    """A forward pass that keeps its graph.

    Attributes:
        output: what it gave.
    """

    def __init__(self, encode: Callable[[], Tensor]) -> None:
        self.output = encode()

    def again(self) -> Tensor:
        """What it gave, with its graph."""
        return self.output


class CachedPass(Pass):
    """A forward pass without a graph, whose output is a leaf; it can be made again with one."""

    def __init__(self, encode: Callable[[], Tensor], generator: Generator) -> None:
        """`generator` is where `encode` draws from, besides torch's own generators."""
        self._encode, self._generator = encode, generator
        self._seed, self._generator_seed = torch.randint(2**62, (2,)).tolist()
        with torch.no_grad():
            super().__init__(self._seeded)
        self.output.requires_grad_()

    @torch.enable_grad()
    def again(self) -> Tensor:
        """The same from a new pass."""
        return self._seeded()

    def _seeded(self) -> Tensor:
        torch.manual_seed(self._seed)
        self._generator.manual_seed(self._generator_seed)
        return self._encode()


class GradientCache:
    """The passes of one step, each over a chunk."""

    def __init__(self, chunk_size: int, generator: Generator) -> None:
        """Takes the number of sentences of a view in a chunk, and where augmentations draw from."""
        self.chunk_size = chunk_size
        self.generator = generator
        self._passes: list[CachedPass] = []

    def chunks(self, views: Sequence[View]) -> int:
        """How many chunks the views are cut into."""
        return -(-max((len(view.tokens) for view in views if view.tokens), default=1) // self.chunk_size)

    def run(self, encode: Callable[[], Tensor]) -> Pass:
        """Makes a pass, and remembers it."""
        self._passes.append(CachedPass(encode, self.generator))
        return self._passes[-1]

    def backward(self) -> None:
        """Takes the gradient at the passes' outputs to the weights; autocast and dropout have to be as they were."""
        while self._passes:
            one = self._passes.pop()  # the longest sentences first: the others fit into the memory that they took
            if one.output.grad is not None:
                output = one.again()
                with torch.autocast(output.device.type, enabled=False):  # as for any backward pass
                    output.backward(one.output.grad)
