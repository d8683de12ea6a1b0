"""isotune: from a pretrained language model to a sentence encoder, by contrastive learning.

    encoder = isotune.Encoder.load("runs/demo/encoder")
    vectors = encoder.encode(["one sentence", "another"])

A name is imported from its room when it is first used, so `import isotune` costs nothing: it brings in neither
torch nor transformers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from isotune.errors import InputError

if TYPE_CHECKING:
    from isotune.encoder.encoder import Encoder
    from isotune.evaluation import evaluate
    from isotune.training import train

    __version__: str

__all__ = ["Encoder", "InputError", "__version__", "evaluate", "train"]

_ROOMS = {"Encoder": "isotune.encoder.encoder", "evaluate": "isotune.evaluation", "train": "isotune.training"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("isotune")
    elif name in _ROOMS:
        value = getattr(importlib.import_module(_ROOMS[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
