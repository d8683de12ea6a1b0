"""The base class of all method options, and the types that several options share."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Sources = Annotated[tuple[str, ...], Field(min_length=1)]


class MethodOptions(BaseModel):
    """Options of a method.

    The three functions below say what the options name besides numbers and switches. An options class overrides them
    if its fields name data or models; most do not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    takes_steps: ClassVar[bool] = True
    """Whether weights are trained step by step. A closed form has no batches, no rate and no schedule."""

    def training_sources(self) -> tuple[str, ...]:
        """The sources that the options name to train on, in place of the recipe's `data`; empty if they name none."""
        return ()

    def dev_sources(self) -> tuple[str, ...]:
        """The labelled sources that the method is scored on; empty if the recipe's dev pairs choose the best step."""
        return ()

    def extra_models(self) -> tuple[str, ...]:
        """The models that the method loads beside the encoder, such as translation models."""
        return ()
