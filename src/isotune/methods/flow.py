"""BERT-flow (Li et al., 2020) and the second stage of BERT-CF (section 4.2): a normalising flow after the encoder.

The flow becomes the last head of the encoder and stays with it: the sentence vector is z, and its cosine is taken as
it is. The encoder is frozen. The flow maximises the likelihood of the encoder's vectors under a standard normal z;
BERT-CF adds MirrorBERT's loss on z as a regulariser, L = lambda_mirror L_mirror + L_flow.

In BERT-CF's ablation "joint" the encoder is trained too, but by the contrastive term alone (section 6.1): to the
likelihood its vectors are data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor, nn

from isotune.data.rows import Sentence
from isotune.encoder.encoder import Encoder
from isotune.encoder.heads import NormalizingFlow
from isotune.losses import bits_per_dimension
from isotune.methods.method import Batch, Method, View
from isotune.methods.mirror import Mirror
from isotune.methods.options.flow import BERTCFOptions, FlowOptions, FlowShape


class Flow(Method):
    """A flow, trained by its likelihood."""

    rows = Sentence

    def __init__(self, options: FlowOptions, encoder: Encoder) -> None:
        """Adds the flow to the encoder's heads.

        Raises:
            InputError: the encoder's vectors have too few features for so many levels.
        """
        super().__init__()
        self.log_determinant = _add_flow(options, encoder).log_determinant
        self.cached = options.cached

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """The flow."""
        return encoder.heads[-1].parameters()

    def views(self, batch: Batch) -> Sequence[View]:
        """The sentences."""
        return [View(vectors=batch.vectors[0]) if self.cached else View(batch.texts[0])]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """L_flow."""
        (z,) = encoded
        return {"bits_per_dimension": bits_per_dimension(z, self.log_determinant())}


class BERTCF(Method):
    """A flow, trained by its likelihood and by MirrorBERT's loss on what comes out of it."""

    rows = Sentence

    def __init__(self, options: BERTCFOptions, encoder: Encoder) -> None:
        """Adds the flow to the encoder's heads.

        Raises:
            InputError: as `Flow` and `Mirror` do.
        """
        super().__init__()
        self.log_determinant = _add_flow(options, encoder).log_determinant
        self.heads: Callable[[Tensor], Tensor] = encoder.heads.forward  # as a function: they are no part of a method
        self.mirror = Mirror(options, encoder)
        self.needs_text = self.mirror.needs_text
        self.contrastive_weight = options.contrastive_weight
        self.train_encoder = options.train_encoder

    def trained(self, encoder: Encoder) -> Iterable[nn.Parameter]:
        """The flow, or in the ablation all."""
        return encoder.parameters() if self.train_encoder else encoder.heads[-1].parameters()

    def views(self, batch: Batch) -> Sequence[View]:
        """MirrorBERT's, before the heads: the flow gets them twice."""
        return [View(view.tokens, heads=False) for view in self.mirror.views(batch)]

    def loss(self, encoded: Sequence[Tensor], batch: Batch) -> dict[str, Tensor]:
        """lambda_mirror * L_mirror, and L_flow of the plain view with a gradient to the flow alone."""
        z = [self.heads(vectors) for vectors in encoded]
        (contrastive,) = self.mirror.loss(z, batch).values()
        likelihood = bits_per_dimension(self.heads(encoded[0].detach()), self.log_determinant())
        return {"bits_per_dimension": likelihood, "mirror": self.contrastive_weight * contrastive}


def _add_flow(shape: FlowShape, encoder: Encoder) -> NormalizingFlow:
    """A new flow, as the encoder's last head."""
    added = NormalizingFlow(encoder.dimension, shape.mixing, shape.levels, shape.depth, shape.width)
    encoder.heads.append(added.to(encoder.device))
    return added
