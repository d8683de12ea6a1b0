"""CoSENT ("Cosine Sentence", Su, 2022, https://kexue.fm/archives/8847), on scored pairs.

The cosines of a batch's pairs should have the order of their scores. The size of a score says
nothing, so scores of any scale will do, the labels 1 and 0 too. The in-batch form in the library
uniem, for pairs without scores, is InfoNCE.
"""

from collections.abc import Sequence

from torch import Tensor

from isotune.data.rows import ScoredPair
from isotune.losses import cosent
from isotune.methods.method import Batch, Method
from isotune.methods.options import CoSENTOptions


class CoSENT(Method):
    """Both sentences of a pair, compared by their cosine; the pairs of a batch are ranked."""

    rows = ScoredPair
    options: CoSENTOptions

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The loss over every two pairs of the batch whose scores differ."""
        first, second = encoded
        assert batch.targets is not None
        return {"cosent": cosent(first, second, batch.targets, self.options.scale)}
