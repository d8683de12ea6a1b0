"""Options of whitening."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from isotune.methods.options.base import Count, MethodOptions


class WhiteningOptions(MethodOptions):
    """Whitening: a linear map after which the vectors of the training text have covariance 1; it takes no steps."""

    takes_steps: ClassVar[bool] = False

    dimensions: Count | None = None
    """Features to keep, those of the largest variance. The paper keeps 256 of 768. Unset: all."""

    strength: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The power of its standard deviation that each direction is divided by. With 1 all variances become 1; with less,
    directions that varied little stay short (attenuated whitening, Mukundan et al. 2019). 1: the paper."""
