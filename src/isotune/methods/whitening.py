"""Whitening (Su et al., 2021), a baseline of the flow: the vectors' covariance becomes the identity.

The linear map follows from the vectors of the training text (`encoder/heads/whitening.py`). It is the encoder's last
head.
"""

from __future__ import annotations

from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.encoder.heads.whitening import whitening
from isotune.errors import InputError
from isotune.methods.method import Additions
from isotune.methods.options import WhiteningOptions
from isotune.methods.protocols import ClosedForm


class Whitening(ClosedForm):
    """A linear head whose weights follow from the mean and the covariance of the vectors."""

    options: WhiteningOptions

    def __init__(self, options: WhiteningOptions, encoder: Encoder) -> None:
        """Makes the map, which is added to the encoder. Before `fit`, the map keeps the first features unchanged.

        Raises:
            InputError: more features are to be kept than the vectors have.
        """
        super().__init__(options, encoder)
        d = encoder.dimension
        kept = options.dimensions or d
        if kept > d:
            raise InputError(f"dimensions {kept}: the encoder's vectors have {d}; keep that many or fewer")
        whitened = Dense(d, kept, activation="Identity")
        nn.init.eye_(whitened.linear.weight)
        nn.init.zeros_(whitened.linear.bias)
        self.adds = Additions(heads=(whitened,))
        self.kept = kept

    def check(self, texts: int) -> None:
        """Checks that there are more texts than features to keep."""
        if texts <= self.kept:
            raise InputError(
                f"whitening to {self.kept} dimensions: there are {texts} sentences, and more of them than "
                "dimensions are needed; give more text, or keep fewer dimensions (--dimensions)"
            )

    def fit(self, encoder: Encoder, vectors: Tensor) -> None:
        """Computes the map from the pooled vectors [N, d] of the text, after the encoder's earlier heads."""
        *_, whitened = encoder.heads
        features = encoder.heads.before_last(vectors)  # [N, d]
        whitened.load_state_dict(whitening(features, encoder.dimension).state_dict())
