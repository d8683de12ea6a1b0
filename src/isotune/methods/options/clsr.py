"""Options of CLSR."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from isotune.methods.options.base import MethodOptions, Temperature


class CLSROptions(MethodOptions):
    """CLSR: layers on a frozen sentence encoder, trained by NT-Xent on pairs of sentences that mean the same."""

    temperature: Temperature = 0.1
    """Divides the cosine similarities. CLSR, section 4.1."""

    width: Annotated[int, Field(ge=1)] = 768
    """Features of the hidden layer, of the sentence vector and of the projection. CLSR, section 4.1."""
