"""ConSERT without labels (Yan et al., 2021, sections 3.1 and 3.2).

Two transformations T1 and T2 of the token embeddings make two views of each sentence (section 3.2). Both views go
through the encoder, and the mean of the last layer is the sentence's vector. NT-Xent pulls the two views of a sentence
together and pushes the views of different sentences apart (equation 1).

The paper trains on the last layer and evaluates the mean of the last two (section 4.1, "Evaluation"). So views are
pooled from the last layer, whichever layers the encoder averages.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.losses import nt_xent
from isotune.methods.method import Batch, Method, View
from isotune.methods.options.consert import AugmentationName, AugmentationOptions, ConSERTOptions
from isotune.views.augmentation import (
    Augmentation,
    EmbeddingDropout,
    FeatureCutoff,
    NoAugmentation,
    Shuffle,
    TokenCutoff,
)


class ConSERT(Method):
    """Two augmented views of each sentence, compared by NT-Xent."""

    rows = Sentence

    def __init__(self, options: ConSERTOptions, encoder: Encoder) -> None:
        """Makes T1 and T2.

        Raises:
            InputError: positions are to be shuffled, and the model has no position ids.
        """
        super().__init__()
        self.temperature = options.temperature
        self.pooling = encoder.pooling.on_last_layer()
        self.augmentations = [make_augmentation(name, options, encoder) for name in options.augmentations]

    def views(self, batch: Batch) -> Sequence[View]:
        """Every sentence changed by T1, and every sentence changed by T2."""
        (sentences,) = batch.texts
        return [View(sentences, augmentation, self.pooling) for augmentation in self.augmentations]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Equation 1, averaged over both views of all sentences."""
        first, second = encoded
        return {"nt_xent": nt_xent(first, second, self.temperature)}


def make_augmentation(name: AugmentationName, options: AugmentationOptions, encoder: Encoder) -> Augmentation:
    """The transformation of section 3.2 with this name.

    Raises:
        InputError: positions are to be shuffled, and the model has no position ids.
    """
    if name == "shuffle" and not encoder.backbone.knows_positions:
        raise InputError("augmentation shuffle: this model has no position ids to shuffle; choose another one")
    augmentations: dict[AugmentationName, Augmentation] = {
        "none": NoAugmentation(),
        "shuffle": Shuffle(),
        "token_cutoff": TokenCutoff(options.token_cutoff_rate),
        "feature_cutoff": FeatureCutoff(options.feature_cutoff_rate),
        "dropout": EmbeddingDropout(options.dropout_rate),
    }
    return augmentations[name]
