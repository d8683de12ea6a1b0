"""A normalising flow after the encoder.

It is BERT-flow (Li et al., 2020), and the second stage of BERT-CF (section 4.2).

The flow becomes the encoder's last head: the sentence vector is z. The encoder is frozen. The flow
maximises the likelihood of the encoder's vectors under a standard normal z. BERT-CF adds
MirrorBERT's loss on z as a regulariser: L = lambda_mirror L_mirror + L_flow. In its ablation
"joint" the encoder is trained too, but only by the contrastive term (section 6.1): the likelihood
treats the encoder's vectors as data.
"""

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor, nn

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import NormalizingFlow
from isotune.losses import bits_per_dimension
from isotune.methods.method import Additions, Batch, Method, View
from isotune.methods.mirror import Mirror
from isotune.methods.options import BERTCFOptions, FlowOptions, FlowShape


class BERTFlow(Method):
    """A flow, trained by its likelihood."""

    rows = Sentence
    # A likelihood is of all features.
    has_widths = False

    def __init__(self, options: FlowOptions, encoder: Encoder) -> None:
        """Makes the flow, which is added to the encoder."""
        super().__init__(options, encoder)
        flow = _flow(options, encoder)
        self.adds = Additions(heads=(flow,))
        self.log_determinant = flow.log_determinant
        self.cached = options.cached

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """Nothing of the encoder: only the flow is trained."""
        return ()

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """L_flow, in bits for each feature."""
        (z,) = encoded
        return {"bits_per_dimension": bits_per_dimension(z, self.log_determinant())}


class BERTCF(Mirror):
    """A flow, trained by its likelihood and by MirrorBERT's loss on its output z."""

    options: BERTCFOptions
    has_widths = False

    def __init__(self, options: BERTCFOptions, encoder: Encoder) -> None:
        """Makes the flow, which is added to the encoder, and what MirrorBERT needs."""
        super().__init__(options, encoder)
        flow = _flow(options, encoder)
        self.adds = Additions(heads=(flow,))
        self.log_determinant = flow.log_determinant
        self.to_z: Callable[[Tensor], Tensor] = nn.Sequential(*encoder.heads, flow).forward

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """Nothing of the encoder; everything in the ablation "joint"."""
        return encoder.parameters() if self.options.train_encoder else ()

    def views(self, batch: Batch) -> Sequence[View]:
        """MirrorBERT's views without heads: the loss applies the heads, to the plain view twice."""
        changed = zip(batch.texts, self.augmentations, strict=True)
        return [View(text, augmentation, heads=False) for text, augmentation in changed]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """lambda_mirror * L_mirror, and L_flow of the plain view.

        The gradient of L_flow goes to the flow alone.
        """
        z = [self.to_z(vectors) for vectors in encoded]
        contrastive = super().loss(z, batch)["mirror"]
        likelihood = bits_per_dimension(self.to_z(encoded[0].detach()), self.log_determinant())
        return {
            "bits_per_dimension": likelihood,
            "mirror": self.options.contrastive_weight * contrastive,
        }


def _flow(options: FlowShape, encoder: Encoder) -> NormalizingFlow:
    return NormalizingFlow(
        encoder.dimension, options.mixing, options.levels, options.depth, options.width
    )
