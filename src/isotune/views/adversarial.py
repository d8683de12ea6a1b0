"""The adversarial view (ConSERT, section 3.2, "Adversarial Attack"): Fast Gradient Value.

The embeddings of a sentence are moved a little in the direction in which a supervised loss grows fastest. This is the
gradient of each token at the output of the embedding layer, scaled to a fixed length (Rozsa et al., 2016). So an
adversarial view needs a loss on the clean sentence first, and is encoded in a second pass.
"""

from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from isotune.data.packed import Packed
from isotune.errors import InputError
from isotune.views.augmentation import Augmentation


@dataclass(frozen=True)
class Adversarial(Augmentation):
    """Asks for a view made by the fast gradient value of another view of the same sentences."""

    of: int = 0  # the number of the other view among the views of the batch; the gradient is taken at its embeddings
    norm: float = 1.0  # the length of each token's noise; 1.0 in the authors' code

    @classmethod
    def from_options(cls, options: Any) -> Self:
        """Takes the norm from the option adversarial_norm."""
        if not hasattr(options, "adversarial_norm"):
            raise InputError("augmentation adversarial: only the method consert-joint has a loss for it; take another")
        return cls(norm=options.adversarial_norm)


@dataclass(eq=False)
class Watched(Augmentation):
    """Wraps an augmentation and keeps its output, so that a gradient at the output can be computed."""

    augmentation: Augmentation
    seen: tuple[Packed, Tensor] | None = None  # the sentences of the last pass, and [T, d], their embeddings

    def positions(self, tokens: Packed) -> Tensor:
        """The positions from the wrapped augmentation, [T] int64."""
        return self.augmentation.positions(tokens)

    def embeddings(self, embeddings: Tensor, tokens: Packed) -> Tensor:
        """The embeddings from the wrapped augmentation, [T, d]."""
        output = self.augmentation.embeddings(embeddings, tokens)
        if not output.requires_grad:  # of embeddings that are left as they are
            output.requires_grad_()
        self.seen = tokens, output
        return output


@dataclass(frozen=True, eq=False)
class Noise(Augmentation):
    """Adds noise to the embeddings of a view."""

    view: Packed  # all sentences of the view
    noise: Tensor  # [T, d], for each of their tokens

    def embeddings(self, embeddings: Tensor, tokens: Packed) -> Tensor:
        """The embeddings with the noise of these sentences, [tokens, d]."""
        return embeddings + self.noise[tokens.on_device(self.view.places(tokens))]
