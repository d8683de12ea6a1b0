"""SIF, smooth inverse frequency (Arora et al., 2017).

The paper is "A Simple but Tough-to-Beat Baseline for Sentence Embeddings". A sentence's vector is a
mean of its tokens' vectors, in which a token w with the share p(w) of the text weighs

    a / (a + p(w))

and from which the common component is removed: the projection on the first singular vector u of the
text's vectors, v - u u^T v (section 3, Algorithm 1). The paper's vectors are word vectors from a
file. Here they are the hidden states that the encoder's pooling averages: the embeddings, some
layers, or both.

The paper divides the weighted sum by the number of tokens; here it is divided by the sum of the
weights. That changes the lengths of the vectors that u is computed from, and so u a little.

The weights stay in the encoder as `token_weights`. The projection is the encoder's last head.
"""

import torch
from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import Dense
from isotune.errors import InputError
from isotune.methods.method import Additions, ClosedForm
from isotune.methods.options import SIFOptions
from isotune.methods.whitening import second_moments


class SIF(ClosedForm):
    """Weights of tokens, and a projection; both follow from the text."""

    options: SIFOptions

    def __init__(self, options: SIFOptions, encoder: Encoder) -> None:
        """Makes weights and a projection that change nothing.

        `count` and `fit` give them their values.
        """
        super().__init__(options, encoder)
        mode = encoder.pooling.mode
        if mode != "mean":
            raise InputError(
                f"pooling {mode}: SIF weighs the tokens of a mean; give pooling mean, or leave SIF "
                "out"
            )
        if encoder.token_weights is not None:
            raise InputError(
                "the encoder weighs its tokens already; leave SIF out, or give pooling mean for "
                "equal weights"
            )
        projection = Dense(encoder.dimension, encoder.dimension, bias=False, activation="Identity")
        nn.init.eye_(projection.linear.weight)
        vocabulary = encoder.backbone.model.config.vocab_size
        self.adds = Additions(heads=(projection,), token_weights=torch.ones(vocabulary))

    def count(self, encoder: Encoder, counts: Tensor) -> None:
        """Algorithm 1, line 2: sets the weights. A token that the text does not have weighs 1."""
        assert encoder.token_weights is not None, "they are attached"
        shares = counts.double() / counts.sum()  # [tokens up to the highest id of the text]
        weights = self.options.smoothing / (self.options.smoothing + shares)
        encoder.token_weights[: len(weights)] = weights.to(encoder.token_weights)

    def fit(self, encoder: Encoder, vectors: Tensor) -> None:
        """Algorithm 1, lines 4 to 7: sets the projection from the text's pooled vectors [N, d]."""
        *_, projection = encoder.heads
        _, directions = torch.linalg.eigh(second_moments(encoder.heads.before_last(vectors)))
        u = directions[:, -1]  # [d], of the largest singular value
        projection.load_state_dict({"linear.weight": torch.eye(len(u)) - torch.outer(u, u)})
