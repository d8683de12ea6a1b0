"""SupCon ("Supervised Contrastive Learning", Khosla et al. 2020): texts of a class find each other.

Of a batch of texts with labels, those of one class are positives of each other, and all others are
negatives. Tuned so, the vectors of a class lie together, and a linear classifier needs few labels:
the two steps of SetFit (Tunstall et al. 2022), whose pairs of equal and different labels are here
all pairs of a batch.

The paper has two augmented views of each image in a batch. Here each text is there once, so a text
without another of its class in the batch has no positive, and adds nothing. The paper's projection
head, which is dropped after training, is left out.
"""

from collections.abc import Sequence

from torch import Tensor

from isotune.data.rows import LabelledSentence
from isotune.encoder.encoder import Encoder
from isotune.losses import sup_con
from isotune.methods.method import Batch, Method
from isotune.methods.options import SupConOptions


class SupCon(Method):
    """Texts of a class are compared with all other texts of the batch."""

    rows = LabelledSentence
    separates_copies = False
    options: SupConOptions

    def __init__(self, options: SupConOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.classes = options.classes

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Equation 2 on the sentence vectors."""
        (vectors,) = encoded
        assert batch.targets is not None
        return {"sup_con": sup_con(vectors, batch.targets, self.options.temperature)}
