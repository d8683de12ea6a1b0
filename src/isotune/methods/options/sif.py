"""Options of SIF."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from isotune.methods.options.base import MethodOptions


class SIFOptions(MethodOptions):
    """SIF: a mean in which rare tokens weigh more, without what all sentences share; it takes no steps."""

    encodings_per_row: ClassVar[float] = 1
    takes_steps: ClassVar[bool] = False

    smoothing: Annotated[float, Field(gt=0)] = 1e-3
    """The weight of a token is a / (a + p), where p is the token's share of the text; this is a. The smaller a is, the
    less do frequent tokens weigh. 1e-3: the paper, which has good results from 1e-4 to 1e-3."""
