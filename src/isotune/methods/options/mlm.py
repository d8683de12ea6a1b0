"""Options of masked language modelling."""

from __future__ import annotations

from isotune.methods.options.base import MethodOptions, Rate


class MLMOptions(MethodOptions):
    """Masked language modelling: further pretraining on the text, or the pretraining of a new model."""

    masking_rate: Rate = 0.15
    """Share of the tokens that are to be guessed. BERT, section 3.1."""
