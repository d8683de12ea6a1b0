"""isotune: from a pretrained language model to a sentence encoder, by contrastive learning.

    encoder = isotune.Encoder.load("runs/notes/encoder")
    vectors = encoder.encode(["one sentence", "another"])

Each name is imported when it is first used, so `import isotune` loads neither torch nor transformers. Importing isotune
and using an `Encoder` change no setting of the process; `tune_process` does, for speed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from isotune.errors import InputError

if TYPE_CHECKING:
    from isotune.encoder.encoder import Encoder
    from isotune.evaluation import evaluate
    from isotune.kernels.memory import tune_process
    from isotune.training import train

    __version__: str

__all__ = ["Encoder", "InputError", "__version__", "evaluate", "train", "tune_process"]

# The module of each name that is imported on first use.
_MODULES = {
    "Encoder": "isotune.encoder.encoder",
    "evaluate": "isotune.evaluation",
    "train": "isotune.training",
    "tune_process": "isotune.kernels.memory",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("isotune")
    elif name in _MODULES:
        value = getattr(importlib.import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next use finds the name without a call of this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
