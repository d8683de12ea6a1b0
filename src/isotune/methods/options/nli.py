"""Options of the NLI classification objective."""

from __future__ import annotations

from isotune.methods.options.base import MethodOptions


class NLIOptions(MethodOptions):
    """Pairs classified as contradiction, entailment or neutral from their two vectors (SBERT-NLI, ConSERT's "sup")."""

    max_square: bool = False
    """Classify from max(u, v)^2 too, beside u, v and |u - v| (ConSERT, equation 2). ConSERT's published numbers did."""
