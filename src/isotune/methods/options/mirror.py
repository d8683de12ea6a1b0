"""Options of MirrorBERT."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotune.methods.options.base import MethodOptions, Positive


class MirrorOptions(MethodOptions):
    """MirrorBERT: a sentence is compared with itself with a masked span, both under dropout."""

    temperature: Positive = 0.04
    """Divides the cosine similarities. The authors' scripts: 0.04 for sentences and phrases, 0.2 for words."""

    spans: Literal["characters", "tokens"] = "characters"
    """What is masked: characters of the text, all by one mask (MirrorBERT), or tokens, each by a mask (BERT-CF, section
    4.1)."""

    span_length: Annotated[int, Field(ge=0)] = 5
    """Characters of a span, or tokens of the longest span. 5: MirrorBERT and BERT-CF. With 0 nothing is masked, and the
    method is SimCSE (BERT-CF, section 5.3)."""

    span_rate: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Success probability of the geometric distribution of the length of token spans. BERT-CF, section 5.3."""

    symmetric: bool = True
    """Both views are queries, as in MirrorBERT. In BERT-CF's formula only the unmasked view is (section 4.1)."""
