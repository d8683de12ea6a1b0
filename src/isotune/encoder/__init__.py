"""The encoder that users keep: a pretrained model on packed sentences, pooling, heads, and their saved form.

Importing this package itself loads no torch, so that the command line can read the options without it. Other rooms
import the names below.
"""

from typing import TYPE_CHECKING

from isotune.lazy import lazy

if TYPE_CHECKING:
    from isotune.encoder.encoder import Encoder
    from isotune.encoder.fingerprint import short_hash
    from isotune.encoder.format.pretrained import local_folder
    from isotune.encoder.options import EncoderOptions
    from isotune.encoder.pooling import EachLayer

__getattr__ = lazy(
    __name__,
    {
        "EachLayer": "encoder.pooling",
        "Encoder": "encoder.encoder",
        "EncoderOptions": "encoder.options",
        "local_folder": "encoder.format.pretrained",
        "short_hash": "encoder.fingerprint",
    },
)
