"""ConSERT (Yan et al., 2021), without labels (sections 3.1 and 3.2) and with them (section 3.3).

Without labels, two transformations T1 and T2 of the token embeddings make two views of each
sentence (section 3.2). Both views go through the encoder, and the mean of the last layer is the
sentence's vector. NT-Xent pulls the two views of a sentence together and pushes the views of
different sentences apart (equation 1).

With labels, L_joint = L_ce + alpha * L_con is minimised on NLI pairs. L_ce is the classification of
the pair (equation 2, see nli.py). The text does not say how L_con treats a pair. As in the authors'
code, NT-Xent is computed over the first sentences of all pairs and over the second sentences, and
the two are added. Their NT-Xent adds its two directions where the text averages them, so the
published balance is alpha = 0.3 here. Without labels their scripts multiply the loss by 0.15, so
theirs is 0.3 times this. AdamW's steps don't depend on the scale of the loss, except through its
epsilon and the clipping of gradients. The adversarial view (section 3.2) exists only with labels:
its noise increases L_ce.

The paper trains on the last layer and evaluates the mean of the last two (section 4.1,
"Evaluation"), so views are pooled from the last layer.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from isotune.encoder.encoder import Encoder
from isotune.losses import nt_xent
from isotune.methods.method import Batch, View
from isotune.methods.nli import NLI
from isotune.methods.options import ConSERTJointOptions, ConSERTOptions
from isotune.methods.soft_targets import SoftTargetMethod
from isotune.views.adversarial import Adversarial
from isotune.views.augmentation import Augmentation


class ConSERT(SoftTargetMethod):
    """Two augmented views of each sentence, compared by NT-Xent, or with soft targets."""

    options: ConSERTOptions

    def __init__(self, options: ConSERTOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.pooling = encoder.pooling.on_last_layer()

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Equation 1, averaged over both views of all sentences; or the loss with soft targets."""
        first, second = encoded
        temperature = self.options.temperature
        if self.start is not None:
            return self.soft_loss(first, second, temperature, batch)
        return {"nt_xent": nt_xent(first, second, temperature)}


class ConSERTJoint(NLI):
    """A pair classified from its plain views, and two views of each side compared by NT-Xent."""

    options: ConSERTJointOptions

    def views(self, batch: Batch) -> Sequence[View]:
        """Both sides unchanged, then both changed by T1, and then both changed by T2.

        The views of T1 are left out where T1 changes nothing.
        """
        first, second = self.augmentations
        # The classifier needs the plain views in any case, and they may be the views of T1 too.
        changes = [second] if first == Augmentation() else [first, second]
        plain = [View(sentences, pooling=self.pooling) for sentences in batch.texts]
        views = list(plain)
        for change in changes:
            for side, view in enumerate(plain):
                augmentation = change
                if isinstance(change, Adversarial):
                    augmentation = replace(change, of=side)
                views.append(replace(view, augmentation=augmentation))
        return views

    def adversary(self, encoded: Sequence[Tensor], batch: Batch) -> Tensor:
        """L_ce of the plain views."""
        return super().loss(encoded[:2], batch)["cross_entropy"]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """L_ce, and alpha times the sum of L_con over both sides."""
        *_, first1, second1, first2, second2 = encoded
        temperature = self.options.temperature
        contrast = nt_xent(first1, first2, temperature) + nt_xent(second1, second2, temperature)
        return {
            "cross_entropy": self.adversary(encoded, batch),
            "nt_xent": self.options.alpha * contrast,
        }
