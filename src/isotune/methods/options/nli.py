"""Options of the NLI classification objective."""

from __future__ import annotations

from isotune.methods.options.base import MethodOptions


class NLIOptions(MethodOptions):
    """SBERT-NLI: pairs are classified as contradiction, entailment or neutral from their two vectors."""

    max_square: bool = False
    """Classify from max(u, v)^2 too, besides u, v and |u - v| (ConSERT, equation 2). The published numbers did."""
