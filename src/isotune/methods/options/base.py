"""The base class of all method options, and the number types that several of them use."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, lt=1)]
Temperature = Annotated[float, Field(gt=0)]


class MethodOptions(BaseModel):
    """Options of a method.

    The three functions below say what the options name besides numbers and switches. An options class overrides them
    if its fields name data or models; most do not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    def training_sources(self) -> tuple[str, ...]:
        """The sources that the options name to train on, in place of the recipe's `data`; empty if they name none."""
        return ()

    def dev_sources(self) -> tuple[str, ...]:
        """The labelled sources that the method is scored on; empty if the recipe's dev pairs choose the best step."""
        return ()

    def extra_models(self) -> tuple[str, ...]:
        """The models that the method loads beside the encoder, such as translation models."""
        return ()
