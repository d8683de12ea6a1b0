"""Options of CLSR."""

from __future__ import annotations

from isotune.methods.options.base import Count, MethodOptions, Positive


class CLSROptions(MethodOptions):
    """CLSR: layers on a frozen sentence encoder, trained by NT-Xent on pairs of sentences that mean the same."""

    temperature: Positive = 0.1
    """Divides the cosine similarities. CLSR, section 4.1."""

    width: Count = 768
    """Features of the hidden layer, of the sentence vector and of the projection. CLSR, section 4.1."""
