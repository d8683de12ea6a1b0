"""Options of whitening."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from isotune.methods.options.base import MethodOptions


class WhiteningOptions(MethodOptions):
    """Whitening: a linear map that makes the covariance of the training text's vectors the identity; no steps."""

    dimensions: Annotated[int, Field(ge=1)] | None = None
    """Features that are kept, those of the largest variance; the paper has 256 of 768. Unset: all."""
