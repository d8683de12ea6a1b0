"""isotune: from a pretrained language model to a sentence encoder, by contrastive learning.

    encoder = isotune.Encoder.load("runs/notes/encoder")
    vectors = encoder.encode(["one sentence", "another"])

Each name is imported when it is first used, so `import isotune` loads neither torch nor transformers. Importing isotune
and using an `Encoder` change no setting of the process; `tune_process` does, for speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isotune.errors import InputError
from isotune.lazy import lazy

if TYPE_CHECKING:
    from isotune.encoder.encoder import Encoder
    from isotune.evaluation import evaluate
    from isotune.kernels.memory import tune_process
    from isotune.training import train

    __version__: str

__all__ = ["Encoder", "InputError", "__version__", "evaluate", "train", "tune_process"]

_get = lazy(
    __name__,
    {
        "Encoder": "isotune.encoder.encoder",
        "evaluate": "isotune.evaluation",
        "train": "isotune.training",
        "tune_process": "isotune.kernels.memory",
    },
)


def __getattr__(name: str) -> Any:
    if name != "__version__":
        return _get(name)
    from importlib.metadata import version

    return version("isotune")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
