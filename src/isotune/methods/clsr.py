"""CLSR ("Contrastive Learning of Sentence Representations", Qiu et al., 2021, sections 3 and 4.1).

A frozen sentence encoder m, two layers e on top of its vector, and a linear projection h on top of
those. The two sentences of a pair find each other among all sentences of the batch by NT-Xent on
h's output (equation 1). The sentence vector is e's output; h is dropped. m never changes, so its
vectors are computed once.

The paper describes e as "an MLP with 1 hidden layer and ReLU nonlinearity on the output". Here e is
two linear layers, each followed by a ReLU: without a nonlinearity on the hidden layer the two would
be a single linear map.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from isotune.data.rows import Pair
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.losses import nt_xent
from isotune.methods.method import Additions, Batch, Method
from isotune.methods.options import CLSROptions


class CLSR(Method):
    """Two new layers on a frozen encoder; the sentences of a pair compared by NT-Xent."""

    rows = Pair
    # m is frozen.
    cached = True
    options: CLSROptions

    def __init__(self, options: CLSROptions, encoder: Encoder) -> None:
        """Makes e, which is added to the encoder, and h, which is dropped after training."""
        super().__init__(options, encoder)
        self.adds = Additions(
            heads=(_layer(encoder.dimension, options.width), _layer(options.width, options.width))
        )
        self.projection = nn.Linear(options.width, options.width)

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Equation 1 on the projected vectors, averaged over both sentences of all pairs."""
        first, second = (self.projection(vectors) for vectors in encoded)
        return {"nt_xent": nt_xent(first, second, self.options.temperature)}


def _layer(features: int, width: int) -> Dense:
    """A layer of e: linear and ReLU, [N, features] -> [N, width].

    The paper names no initialisation. He's is made for ReLUs, and trains faster here than torch's
    default or BERT's.
    """
    layer = Dense(features, width, activation="ReLU")
    nn.init.kaiming_normal_(layer.linear.weight, nonlinearity="relu")
    nn.init.zeros_(layer.linear.bias)
    return layer
