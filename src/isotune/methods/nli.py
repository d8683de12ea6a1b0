"""NLI classification, SBERT's objective and ConSERT's supervised one (ConSERT, section 3.3, equation 2).

Two sentences are encoded separately, from the last layer. A linear layer, which is dropped after training, classifies
from their vectors u and v and the difference |u - v| whether the second sentence follows from the first.
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from isotune.data.rows import LabelledPair
from isotune.encoder.encoder import Encoder
from isotune.losses import pair_features
from isotune.methods.method import Batch, Method
from isotune.methods.options import NLIOptions

NLI_CLASSES = ("contradiction", "entailment", "neutral")  # in the order of the authors' class numbers


class PairClassifier(nn.Module):
    """The linear layer W f + b of equation 2."""

    def __init__(self, dimension: int, classes: int, max_square: bool) -> None:
        super().__init__()
        self.max_square = max_square
        self.linear = nn.Linear((4 if max_square else 3) * dimension, classes)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Two vectors [N, d] each -> logits [N, classes]."""
        logits: Tensor = self.linear(pair_features(first, second, self.max_square))
        return logits


class NLI(Method):
    """Both sentences of a pair, classified together by cross entropy."""

    rows = LabelledPair
    classes = NLI_CLASSES

    def __init__(self, options: NLIOptions, encoder: Encoder) -> None:
        super().__init__(options, encoder)
        self.pooling = encoder.pooling.on_last_layer()
        self.classifier = PairClassifier(encoder.dimension, len(NLI_CLASSES), options.max_square)

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """The cross entropy of the pairs' labels."""
        premises, hypotheses = encoded
        assert batch.targets is not None
        return {"cross_entropy": cross_entropy(self.classifier(premises, hypotheses), batch.targets)}
