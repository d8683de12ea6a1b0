"""What all options have in common."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(ge=0, lt=1)]
Temperature = Annotated[float, Field(gt=0)]


class MethodOptions(BaseModel):
    """Options of a method."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    names_data: ClassVar[bool] = False  # the options themselves say what is read
