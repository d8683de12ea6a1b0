"""Options of SimCSE."""

from __future__ import annotations

from isotune.methods.options.base import MethodOptions, Temperature


class SimCSEOptions(MethodOptions):
    """SimCSE without labels: a sentence's two views differ only by the model's dropout."""

    temperature: Temperature = 0.05
    """Divides the cosine similarities. 0.05 is the authors' choice."""

    projection: bool = True
    """Train through a linear layer with tanh, dropped afterwards, as the authors do with the [CLS] vector."""


class SimCSESupervisedOptions(MethodOptions):
    """SimCSE with labels: entailed sentences against those of all others and the contradicted ones."""

    temperature: Temperature = 0.05
    """Divides the cosine similarities. 0.05 is the authors' choice."""

    hard_negative_weight: float = 0.0
    """Added to the logit of a sentence's own hard negative. 0 is the authors' choice."""

    projection: bool = True
    """Add a linear layer with tanh to the encoder, and keep it, as the authors do with the [CLS] vector."""
