"""Gradient cache (Gao et al., 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup").

A contrastive loss needs the vectors of the whole batch, but the activations behind them are needed for one chunk at a
time:

1. Every chunk of sentences is encoded without a graph.
2. The loss of all vectors is computed. Its gradient at the vectors is the cache.
3. Each chunk is encoded again, now with a graph, and its part of the cache goes backward through the graph.

The gradient is that of the loss of all vectors, whatever the method does with them. The price is one more forward pass.
Each pass has seeds of its own, so that it draws the same dropout and the same augmentations the second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from isotune.methods.method import View


class Pass:
    """A forward pass that keeps its graph."""

    def __init__(self, encode: Callable[[], Tensor]) -> None:
        self.output = encode()

    def again(self) -> Tensor:
        """The output with its graph."""
        return self.output


class CachedPass(Pass):
    """A forward pass without a graph. Its output is a leaf, and the pass can be repeated with a graph."""

    def __init__(self, encode: Callable[[], Tensor], generator: Generator) -> None:
        """Makes the pass; `encode` draws random numbers from `generator` and from torch's global generators."""
        self._encode, self._generator = encode, generator
        self._seed, self._generator_seed = torch.randint(2**62, (2,)).tolist()
        with torch.no_grad():
            super().__init__(self._seeded)
        self.output.requires_grad_()

    @torch.enable_grad()
    def again(self) -> Tensor:
        """The same output with a graph, from a second pass."""
        return self._seeded()

    def _seeded(self) -> Tensor:
        torch.manual_seed(self._seed)
        self._generator.manual_seed(self._generator_seed)
        return self._encode()


class GradientCache:
    """The passes of one step."""

    def __init__(self, chunk_size: int, generator: Generator) -> None:
        """Takes the number of a view's sentences in a chunk, and the generator of the augmentations."""
        self.chunk_size, self.generator = chunk_size, generator
        self._passes: list[CachedPass] = []

    def chunks(self, views: Sequence[View]) -> int:
        """The number of chunks that the views are cut into."""
        return -(-max((len(view.tokens) for view in views if view.tokens), default=1) // self.chunk_size)

    def run(self, encode: Callable[[], Tensor]) -> Pass:
        """Makes a pass and remembers it for `backward`."""
        self._passes.append(CachedPass(encode, self.generator))
        return self._passes[-1]

    def backward(self) -> None:
        """Sends the gradients at the passes' outputs back to the weights. Autocast and dropout must be as before."""
        while self._passes:
            cached = self._passes.pop()  # the longest sentences first: later passes fit into the memory freed
            if cached.output.grad is not None:
                output = cached.again()
                with torch.autocast(output.device.type, enabled=False):  # as for any backward pass
                    output.backward(cached.output.grad)
