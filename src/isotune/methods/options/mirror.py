"""Options of MirrorBERT."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotune.methods.options.base import MethodOptions, Temperature


class MirrorOptions(MethodOptions):
    """MirrorBERT: a sentence against itself with a span masked, both under dropout."""

    temperature: Temperature = 0.04
    """Divides the cosine similarities. The authors' scripts: 0.04 for sentences and phrases, 0.2 for words."""

    spans: Literal["characters", "tokens"] = "characters"
    """What is masked: characters of the text, 5 of them by one mask (MirrorBERT), or tokens, each by its own (BERT-CF,
    section 4.1)."""

    span_length: Annotated[int, Field(ge=0)] = 5
    """Characters of a span, or tokens of the longest one. 5 is MirrorBERT's and BERT-CF's; with 0 nothing is masked,
    which makes SimCSE of it (BERT-CF, section 5.3)."""

    span_rate: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Spans of tokens have geometrically distributed lengths, and this is the distribution's success probability.
    BERT-CF, section 5.3."""

    symmetric: bool = True
    """Both views are queries, as in MirrorBERT. BERT-CF's formula has only the unmasked one (section 4.1)."""
