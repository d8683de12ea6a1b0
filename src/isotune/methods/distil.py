"""Distillation: the encoder learns what similarities frozen teachers find between sentences.

Each sentence ranks the others of its batch. The encoder's ranking shall be that of the teachers,
whose cosines are averaged, as DistillCSE averages the logits of several teachers (Xu et al., 2023).
Only similarities are compared, so a teacher may have another size, another tokenizer, weights of
tokens, or layers on top, and the encoder needs none of them: it is pooled from its last layer, and
loses its weights of tokens and its heads, except one that scales vectors to length 1. DistillCSE
has a contrastive loss and a queue of sentences beside, and shuffles the logits of neighbouring
ranks; none of this is here.
"""

from collections.abc import Sequence
from copy import deepcopy

from torch import Tensor

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.losses import ranking_divergence
from isotune.methods.method import Additions, Batch, Method
from isotune.methods.options import DistilOptions


class Distil(Method):
    """Each sentence's similarities with the others of the batch, as the teachers find them."""

    rows = Sentence
    # The teachers have tokenizers of their own.
    needs_text = True
    separates_copies = False
    options: DistilOptions
    fixed = "clone"

    def __init__(self, options: DistilOptions, encoder: Encoder) -> None:
        """Loads the teachers, or clones the encoder."""
        super().__init__(options, encoder)
        self.clone: Encoder | None = None
        if options.teachers:
            self.teachers = [Encoder.load(name) for name in options.teachers]
        else:
            self.clone = deepcopy(encoder).requires_grad_(False)
            self.teachers = [self.clone]
        self.adds = Additions(pooling=encoder.pooling.on_last_layer(), drops_heads=True)

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The divergence from the teachers, whose vectors are the batch's targets."""
        (students,) = encoded
        assert batch.targets is not None, "the teachers have encoded the rows"
        return {"divergence": ranking_divergence(students, batch.targets, self.options.temperature)}
