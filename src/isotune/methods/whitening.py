"""Whitening (Su et al., 2021), a baseline of the flow: the vectors' covariance becomes the identity.

The linear map is computed from the vectors of the training text, in one go and without a gradient (see
`encoder/heads/whitening.py`), and stays with the encoder as its last head.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.encoder.heads.whitening import CHUNK_VECTORS, whitening
from isotune.errors import InputError
from isotune.methods.method import Batch, Method, View
from isotune.methods.options.whitening import WhiteningOptions


class Whitening(Method):
    """A linear head, fitted."""

    rows = Sentence
    cached = True
    closed_form = True

    def __init__(self, options: WhiteningOptions, encoder: Encoder) -> None:
        """Puts the map on top of the encoder; until it is fitted, it leaves the features it keeps as they are.

        Raises:
            InputError: more features are to be kept than there are.
        """
        super().__init__()
        d = encoder.dimension
        kept = options.dimensions or d
        if kept > d:
            raise InputError(f"dimensions {kept}: the encoder's vectors have {d}; keep that many or fewer")
        head = Dense(d, kept, activation="Identity")
        with torch.no_grad():
            head.linear.weight.copy_(torch.eye(kept, d))
            head.linear.bias.zero_()
        self._heads = (nn.Sequential(*encoder.heads), head)  # in a tuple: they are the encoder's to save
        encoder.heads.append(head.to(encoder.device))

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """None."""
        return ()

    @torch.no_grad()
    def fit(self, vectors: Tensor) -> None:
        """Computes the map from the pooled vectors [N, d] of the text."""
        before, head = self._heads
        device = head.linear.weight.device
        features = torch.cat([before(chunk.to(device)).cpu() for chunk in vectors.split(CHUNK_VECTORS)])  # [N, d]
        head.load_state_dict(whitening(features, head.linear.out_features).state_dict())

    def views(self, batch: Batch) -> Sequence[View]:
        """The sentences."""
        return [View(vectors=batch.vectors[0])]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """Nothing is minimised."""
        return {}
