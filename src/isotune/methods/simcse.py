"""SimCSE, without labels (dropout as the only augmentation) and with them (inference pairs).

Without labels, each sentence goes through the encoder twice, and its two vectors differ only by the
dropout masks (Gao et al., 2021, section 3). The two passes are the views of `Method.views`: one for
each of the two `augmentations`, which change nothing by default. The same method is the
unsupervised task of the small-BERT paper (sections 3 and 5.3), and BERT-CF's ablation with a span
length of 0 (section 5.3). With labels, each premise has to find its entailed sentence among the
entailed and the contradicted sentences of the whole batch (section 4, equation 5).

The vectors pass a linear layer with tanh (`projection`), as the authors' [CLS] vector does. Without
labels the layer is dropped after training, unless `keep_projection` says otherwise. With labels it
stays a part of the encoder.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from isotune.data.rows import Triplet
from isotune.encoder.encoder import Encoder
from isotune.losses import info_nce
from isotune.methods.method import Additions, Batch, Method
from isotune.methods.options import SimCSEOptions, SimCSESupervisedOptions
from isotune.methods.projection import tanh_projection
from isotune.methods.soft_targets import SoftTargetMethod


class SimCSE(SoftTargetMethod):
    """Two passes of each sentence, compared by InfoNCE, or with soft targets."""

    options: SimCSEOptions

    def __init__(self, options: SimCSEOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.projection: nn.Module = nn.Identity()
        if options.keep_projection:
            self.adds = Additions(heads=(tanh_projection(encoder.dimension),))
        elif options.projection:
            self.projection = tanh_projection(encoder.dimension)

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE from the first pass to the second; or the loss with soft targets."""
        first, second = (self.projection(vectors) for vectors in encoded)
        temperature = self.options.temperature
        if self.start is not None:
            return self.soft_loss(first, second, temperature, batch)
        return {"info_nce": info_nce(first, second, temperature)}


class SimCSESupervised(Method):
    """Premises, entailed and contradicted sentences, compared by InfoNCE with hard negatives."""

    rows = Triplet
    options: SimCSESupervisedOptions

    def __init__(self, options: SimCSESupervisedOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        if options.projection:
            self.adds = Additions(heads=(tanh_projection(encoder.dimension),))

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """InfoNCE from premises to entailed sentences, among these and the contradicted ones."""
        premises, entailed, contradicted = encoded
        return {"info_nce": info_nce(premises, entailed, self.options.temperature, contradicted)}
