"""Options of masked language modelling."""

from __future__ import annotations

from isotune.methods.options.base import MethodOptions, Rate


class MLMOptions(MethodOptions):
    """Masked language modelling: further pretraining of a model on the text, or pretraining of a new model."""

    masking_rate: Rate = 0.15
    """Share of the tokens that are masked. BERT, section 3.1."""
