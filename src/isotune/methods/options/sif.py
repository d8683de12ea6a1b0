"""Options of SIF."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from isotune.methods.options.base import MethodOptions


class SIFOptions(MethodOptions):
    """SIF: rare tokens weigh more in the mean, and the direction that all sentences share is removed. No steps."""

    takes_steps: ClassVar[bool] = False

    smoothing: Annotated[float, Field(gt=0)] = 1e-3
    """The weight of a token is a / (a + p), where p is the token's share of the text; this is a. A smaller a
    lowers the weight of frequent tokens. 1e-3: the paper, which has good results from 1e-4 to 1e-3."""
