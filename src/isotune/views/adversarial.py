"""The adversarial view (ConSERT, section 3.2, "Adversarial Attack"): Fast Gradient Value.

The embeddings of a sentence are moved a little in the direction in which a supervised loss grows
fastest. This is the gradient of each token at the output of the embedding layer, scaled to a fixed
length (Rozsa et al., 2016). So an adversarial view needs a loss on the clean sentence first, and is
encoded in a second pass.
"""

from dataclasses import dataclass, field
from typing import Any, Self

from torch import Tensor

from isotune.data.packed import Packed
from isotune.errors import InputError
from isotune.views.augmentation import Augmentation


@dataclass(frozen=True)
class Adversarial(Augmentation):
    """Asks for a view made by the fast gradient value of another view of the same sentences."""

    of: int = 0
    """The number of the other view among the views of the batch.

    The gradient is taken at its embeddings.
    """

    norm: float = 1.0
    """The length of each token's noise. It is 1.0 in the authors' code."""

    @classmethod
    def from_options(cls, options: Any) -> Self:
        """Takes the norm from the option adversarial_norm."""
        if not hasattr(options, "adversarial_norm"):
            raise InputError(
                "augmentation adversarial: only the method consert-joint has a loss for it; take "
                "another"
            )
        return cls(norm=options.adversarial_norm)


@dataclass(frozen=True, eq=False)
class Noise(Augmentation):
    """Adds noise to the embeddings of a view, which another augmentation may change first."""

    view: Packed
    """All sentences of the view."""

    noise: Tensor
    """[T, d], for each of their tokens."""

    first: Augmentation = field(default_factory=Augmentation)
    """The other augmentation."""

    def positions(self, tokens: Packed) -> Tensor:
        """The positions from the other augmentation, [T] int64."""
        return self.first.positions(tokens)

    def embeddings(self, embeddings: Tensor, tokens: Packed) -> Tensor:
        """The embeddings with the noise of these sentences, [tokens, d]."""
        places = tokens.on_device(self.view.places(tokens))  # [tokens]
        return self.first.embeddings(embeddings, tokens) + self.noise[places]
