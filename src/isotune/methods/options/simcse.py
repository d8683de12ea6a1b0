"""Options of SimCSE."""

from __future__ import annotations

from isotune.methods.options.base import MethodOptions, Positive


class SimCSEOptions(MethodOptions):
    """SimCSE without labels: the two views of a sentence differ only by the model's dropout."""

    temperature: Positive = 0.05
    """Divides the cosine similarities. 0.05: the authors."""

    projection: bool = True
    """Train through a linear layer with tanh, which is dropped after training, as the authors do on the [CLS]
    vector."""


class SimCSESupervisedOptions(MethodOptions):
    """SimCSE with labels: the negatives of a premise are all other hypotheses, the contradicted ones too."""

    temperature: Positive = 0.05
    """Divides the cosine similarities. 0.05: the authors."""

    hard_negative_weight: float = 0.0
    """Added to the logit of a sentence's own hard negative. 0: the authors."""

    projection: bool = True
    """Add a linear layer with tanh to the encoder and keep it, as the authors do on the [CLS] vector."""
