"""The encoder that users keep: a pretrained model on packed sentences, pooling, heads, and their saved form.

`load.py` loads an encoder, `encoder.py` is the encoder. Importing this package itself loads no torch, so that the
command line can read the options without it.
"""

from typing import Literal

# The number types that an encoder can compute in. They are apart from the options so that help needs no pydantic.
Precision = Literal["float32", "bfloat16", "int8"]
