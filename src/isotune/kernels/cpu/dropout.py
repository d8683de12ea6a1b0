"""Dropout whose random numbers belong to the sentences.

A dropout layer of a model draws from the seeds of the sentences (`data/draws.py`), and each layer
draws other numbers. 64 bits decide on four elements, by 16 bits each. So rates are rounded to
multiples of 2^-16, and kept elements are scaled by the rounded rate. This takes less than half of
the time of torch's dropout on a CPU; a GPU has torch's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor, nn

from isotune.data.draws import random_bits, split_seeds

T = TypeVar("T")

N = TypeVar("N", int, Tensor)
"""A number, or several."""

STEPS = 2**16
"""Values that an element's bits can have."""


class Draws:
    """The seeds of the random numbers of one forward pass."""

    def __init__(self, sentences: Tensor, tokens: Tensor) -> None:
        """Takes the seeds of the sentences [N], and of the tokens in the shape of the batch."""
        self._sentences = sentences
        self._tokens = tokens
        self._calls = 0

    def of_sentences(self) -> Tensor:
        """New seeds [N] of the sentences; others at every call."""
        return self._next(self._sentences)

    def of_rows(self, x: Tensor) -> Tensor:
        """New seeds of the rows of the model's tensors [..., d] -> [...]; others at every call.

        A row belongs to a token, or, in a padded model's attention weights, to a head and a token.
        In a tensor that belongs to no sentence, the rows get seeds from the first token.
        """
        tokens = self._next(self._tokens)
        if x.shape[:-1] == tokens.shape:
            return tokens
        if x.ndim == 4 and x.shape[::2] == tokens.shape:  # [N, heads, longest, longest]
            return split_seeds(tokens[:, None], torch.arange(x.shape[1], device=x.device)[:, None])
        return random_bits(tokens.flatten()[0], x[..., 0].numel()).view(x.shape[:-1])

    def _next(self, seeds: Tensor) -> Tensor:
        self._calls += 1
        return split_seeds(seeds, self._calls)


DRAWS: ContextVar[Draws] = ContextVar("draws")
"""The seeds of the forward pass that a thread is in."""


@contextmanager
def with_value(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Gives a context variable this value for a `with` block, in this thread."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def dropout(x: Tensor, rate: float, seeds: Tensor) -> Tensor:
    """Sets each element of x [..., d] to 0 with probability `rate`, divides others by 1 - rate.

    `seeds` [...] are those of the rows.
    """
    d = x.shape[-1]
    bits = random_bits(seeds, draws_for(d))
    factors = dropout_factors(bits, rate, x.dtype)[..., :d]
    return (x * factors).to(x.dtype)


def draws_for(count: N) -> N:
    """How many numbers of 64 bits decide on `count` elements."""
    return -(-count // 4)


def dropout_factors(bits: Tensor, rate: float, dtype: torch.dtype) -> Tensor:
    """What dropout multiplies elements by: 0 or 1 / (1 - rate), four for each 64 bits.

    int64 [..., n] -> [..., 4 n]. They are of this type, but at least float32: rounded to bfloat16,
    all kept elements would be too large or too small.
    """
    dropped = min(round(rate * STEPS), STEPS - 1)
    exact = torch.promote_types(dtype, torch.float32)
    is_kept = bits.view(torch.int16) >= dropped - STEPS // 2
    return is_kept.to(exact).mul_(STEPS / (STEPS - dropped))


class FastDropout(nn.Dropout):
    """A dropout layer that uses `dropout`."""

    def forward(self, x: Tensor) -> Tensor:
        """Drops elements of a tensor, in training only; on a GPU by torch's dropout."""
        if not x.is_cpu:
            return super().forward(x)
        if self.training and self.p:
            return dropout(x, self.p, DRAWS.get().of_rows(x))
        return x


def replace_dropout(model: nn.Module) -> None:
    """Replaces each of torch's dropout layers by a `FastDropout`."""
    for name, module in list(model.named_modules()):
        if type(module) is nn.Dropout:
            model.set_submodule(name, FastDropout(module.p).train(module.training))
