"""SimCSE without labels: dropout as the only augmentation.

The sentence goes through the encoder twice. Its two vectors differ by the dropout masks alone, and InfoNCE asks the
first to find the second among the second vectors of the batch (Gao et al., 2021, section 3). It is also the
unsupervised method of "Contrastive Learning for Sentence Embeddings in BERT and its Smaller Variants" (sections 3 and
5.3), and BERT-CF's ablation with a span length of 0 (section 5.3).

While it trains, the vectors pass a linear layer with tanh that is dropped afterwards (`projection`), which is what
the authors do with the [CLS] vector.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.losses import info_nce
from isotune.methods.method import Batch, Method, View
from isotune.methods.options import SimCSEOptions


class SimCSE(Method):
    """Two passes of the same sentence, compared by InfoNCE."""

    rows = Sentence

    def __init__(self, options: SimCSEOptions, encoder: Encoder) -> None:
        super().__init__()
        self.temperature = options.temperature
        self.projection: nn.Module = nn.Identity()
        if options.projection:
            linear = nn.Linear(encoder.dimension, encoder.dimension)
            nn.init.normal_(linear.weight, std=0.02)  # as BERT's own layers start
            nn.init.zeros_(linear.bias)
            self.projection = nn.Sequential(linear, nn.Tanh())

    def views(self, batch: Batch) -> Sequence[View]:
        """The sentences, twice."""
        (sentences,) = batch.texts
        return View(sentences), View(sentences)

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE from the first pass to the second."""
        first, second = (self.projection(vectors) for vectors in encoded)
        return {"info_nce": info_nce(first, second, self.temperature)}
