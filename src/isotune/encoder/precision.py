"""The number types that an encoder can compute in. They stand apart from the options so that help needs no pydantic."""

from typing import Literal

Precision = Literal["float32", "bfloat16", "int8"]
