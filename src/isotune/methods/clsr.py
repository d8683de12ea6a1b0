"""CLSR ("Contrastive Learning of Sentence Representations", Qiu et al., 2021, sections 3 and 4.1).

A frozen sentence encoder m, two layers e on top of its vector, and a linear projection h on top of those. The two
sentences of a pair that mean the same (one entails the other, or people scored them above 4 of 5) find each other
among all sentences of the batch by NT-Xent on h's output (equation 1, both directions). The sentence vector is e's
output; h is dropped.

m never changes, so its vectors are computed once. e is "an MLP with 1 hidden layer and ReLU nonlinearity on the
output", h a projection as in SimCLR; read here as two linear layers, each with a ReLU, since without one on the
hidden layer they would be a single linear map.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from isotune.data.rows import Pair
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.losses import nt_xent
from isotune.methods.method import Batch, Method, View
from isotune.methods.options.clsr import CLSROptions


class CLSR(Method):
    """Two new layers on a frozen encoder; the sentences of a pair compared by NT-Xent."""

    rows = Pair
    cached = True

    def __init__(self, options: CLSROptions, encoder: Encoder) -> None:
        """Puts e on top of the encoder."""
        super().__init__()
        self.temperature = options.temperature
        for features in (encoder.dimension, options.width):
            head = Dense(features, options.width, activation="ReLU")
            # The paper names no start. He's suits ReLUs: it trains faster here than torch's own or BERT's.
            nn.init.kaiming_normal_(head.linear.weight, nonlinearity="relu")
            nn.init.zeros_(head.linear.bias)
            encoder.heads.append(head.to(encoder.device))
        self.projection = nn.Linear(options.width, options.width)

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """Those of e."""
        return [parameter for head in list(encoder.heads)[-2:] for parameter in head.parameters()]

    def views(self, batch: Batch) -> Sequence[View]:
        """The two sentences of each pair."""
        return [View(vectors=vectors) for vectors in batch.vectors]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Equation 1 on the projected vectors, averaged over both sentences of all pairs."""
        first, second = (self.projection(vectors) for vectors in encoded)
        return {"nt_xent": nt_xent(first, second, self.temperature)}
