"""Options of whitening."""

from __future__ import annotations

from typing import ClassVar

from isotune.methods.options.base import Count, MethodOptions


class WhiteningOptions(MethodOptions):
    """Whitening: a linear map after which the vectors of the training text have covariance 1; it takes no steps."""

    encodings_per_row: ClassVar[float] = 1

    dimensions: Count | None = None
    """Features to keep, those of the largest variance. The paper keeps 256 of 768. Unset: all."""
