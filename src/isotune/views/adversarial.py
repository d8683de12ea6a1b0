"""The adversarial view (ConSERT, section 3.2, "Adversarial Attack"): Fast Gradient Value.

The sentence's embeddings are moved a little in the direction in which a supervised loss grows fastest: each token's
gradient at the output of the embedding layer, scaled to one length (Rozsa et al., 2016). So such a view needs a
loss on the clean sentence first, and is encoded in a second pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from isotune.data.packed import Packed
from isotune.views.augmentation import Augmentation


@dataclass(frozen=True)
class Adversarial(Augmentation):
    """Asks for the fast gradient value of another view of the same sentences.

    Attributes:
        of: number of that view among those of the batch; the gradient is taken at its embeddings.
        norm: length of each token's noise; 1.0 in the authors' code.
    """

    of: int
    norm: float = 1.0


class Watched(Augmentation):
    """Another augmentation that remembers its embeddings, so that a gradient at them can be asked for."""

    def __init__(self, augmentation: Augmentation) -> None:
        self._augmentation = augmentation
        self._output: Tensor | None = None

    def positions(self, tokens: Packed, generator: Generator) -> Tensor:
        """Those of the augmentation, [T] int64."""
        return self._augmentation.positions(tokens, generator)

    def embeddings(self, embeddings: Tensor, tokens: Packed, generator: Generator) -> Tensor:
        """Those of the augmentation, [T, d]."""
        self._output = self._augmentation.embeddings(embeddings, tokens, generator)
        return self._output

    @property
    def output(self) -> Tensor:
        """What came out, [T, d]."""
        assert self._output is not None, "nothing has been encoded yet"
        return self._output


@dataclass(frozen=True, eq=False)
class Noise(Augmentation):
    """Adds noise [T, d] to the embeddings of a view."""

    noise: Tensor

    def embeddings(self, embeddings: Tensor, tokens: Packed, generator: Generator) -> Tensor:
        """[T, d]."""
        return embeddings + self.noise


def fast_gradient_values(loss: Tensor, watched: Sequence[Watched], norms: Sequence[float]) -> list[Noise]:
    """The noise, for each of the watched views, in whose direction the loss grows fastest."""
    gradients = torch.autograd.grad(loss, [one.output for one in watched], retain_graph=True)  # [T, d] each
    return [
        Noise(norm * normalize(gradient, dim=-1, eps=1e-10)) for gradient, norm in zip(gradients, norms, strict=True)
    ]
