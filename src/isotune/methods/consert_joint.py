"""ConSERT with labels, jointly (Yan et al., 2021, section 3.3): L_joint = L_ce + alpha * L_con on NLI pairs.

L_ce is the classification of the pair (equation 2, see nli.py), L_con NT-Xent over two views of each sentence
(equation 1, see consert.py). The text does not say how L_con treats a pair. As in the authors' code, L_con is
computed once over the first sentences of all pairs and once over the second sentences, and the two values are added.
The authors' NT-Xent adds its two directions where the text averages them, so the published balance is alpha = 0.3 here.

The adversarial view (section 3.2) exists only with labels: its noise increases L_ce.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import cross_entropy

from isotune.data.rows import LabelledPair
from isotune.encoder.encoder import Encoder
from isotune.losses import nt_xent
from isotune.methods.consert import make_augmentation
from isotune.methods.method import Batch, Method, View
from isotune.methods.nli import NLI_CLASSES, PairClassifier
from isotune.methods.options.consert import ConSERTJointOptions
from isotune.methods.protocols import AttacksViews
from isotune.views.adversarial import Adversarial


class ConSERTJoint(Method, AttacksViews):
    """A pair classified from its plain views, and two views of each side compared by NT-Xent."""

    rows = LabelledPair
    classes = NLI_CLASSES

    def __init__(self, options: ConSERTJointOptions, encoder: Encoder) -> None:
        """Makes the classifier and the augmentations.

        Raises:
            InputError: positions are to be shuffled, and the model has no position ids.
        """
        super().__init__()
        self.alpha = options.alpha
        self.temperature = options.temperature
        self.pooling = encoder.pooling.on_last_layer()
        self.classifier = PairClassifier(encoder.dimension, len(NLI_CLASSES), options.max_square)
        # The classifier needs the plain views in any case. Where T1 changes nothing, they are also the views of T1.
        first, second = options.augmentations
        names = (second,) if first == "none" else (first, second)
        self.augmentations = [
            [
                Adversarial(of=side, norm=options.adversarial_norm)
                if name == "adversarial"
                else make_augmentation(name, options, encoder)
                for side in range(2)
            ]
            for name in names
        ]

    def views(self, batch: Batch) -> Sequence[View]:
        """Both sides unchanged; then both changed by T1, unless T1 changes nothing; then both changed by T2."""
        plain = [View(sentences, pooling=self.pooling) for sentences in batch.texts]
        changed = [
            View(sentences, augmentation, self.pooling)
            for augmentations in self.augmentations
            for sentences, augmentation in zip(batch.texts, augmentations, strict=True)
        ]
        return [*plain, *changed]

    def adversary(self, encoded: Sequence[Tensor], batch: Batch) -> Tensor:
        """L_ce of the plain views."""
        assert batch.targets is not None
        return cross_entropy(self.classifier(encoded[0], encoded[1]), batch.targets)

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """L_ce, and alpha times the sum of L_con over both sides."""
        *_, first1, second1, first2, second2 = encoded
        contrast = nt_xent(first1, first2, self.temperature) + nt_xent(second1, second2, self.temperature)
        return {"cross_entropy": self.adversary(encoded, batch), "nt_xent": self.alpha * contrast}
