"""NLI classification: SBERT's objective, and ConSERT's supervised one (section 3.3, equation 2).

Two sentences are encoded separately, from the last layer. A linear layer, which is dropped after
training, classifies from their vectors u and v and the difference |u - v| whether the second
sentence follows from the first.
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from isotune.data.rows import LabelledPair
from isotune.encoder.encoder import Encoder
from isotune.losses import pair_features
from isotune.methods.method import Batch, Method
from isotune.methods.options import NLIOptions


class NLI(Method):
    """Both sentences of a pair, classified together by cross entropy."""

    rows = LabelledPair
    # In the order of the authors' class numbers.
    classes = ("contradiction", "entailment", "neutral")
    options: NLIOptions

    def __init__(self, options: NLIOptions, encoder: Encoder) -> None:
        """Makes the classifier, W f + b of equation 2."""
        super().__init__(options, encoder)
        self.pooling = encoder.pooling.on_last_layer()
        parts = 4 if options.max_square else 3
        self.classifier = nn.Linear(parts * encoder.dimension, len(self.classes))

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The cross entropy of the pairs' labels."""
        premises, hypotheses = encoded
        assert batch.targets is not None
        features = pair_features(premises, hypotheses, self.options.max_square)
        logits = self.classifier(features)  # [N, classes]
        return {"cross_entropy": cross_entropy(logits, batch.targets)}
