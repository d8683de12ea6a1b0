"""The number types that an encoder can compute in.

The help of the command line needs no torch for them.
"""

from typing import Literal

Precision = Literal["auto", "float32", "bfloat16"]
