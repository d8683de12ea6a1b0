"""isotune: from a pretrained language model to a sentence encoder, by contrastive learning.

    encoder = isotune.Encoder.load("runs/notes/encoder")
    vectors = encoder.encode(["one sentence", "another"])

Each name is imported when it is first used, so `import isotune` loads neither torch nor transformers. Importing isotune
and using an `Encoder` change no setting of the process; `tune_process` does, for speed. The names of `__all__` keep
their meaning from version to version; `docs/plugins.md` explains those that extend isotune.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from isotune.errors import InputError

if TYPE_CHECKING:
    from isotune.data.catalogue import add_datasets
    from isotune.data.packed import Packed
    from isotune.data.rows import LabelledPair, LabelledSentence, Pair, ScoredPair, Sentence, Triplet
    from isotune.encoder.encoder import Encoder
    from isotune.encoder.format.modules import head
    from isotune.encoder.heads import Head
    from isotune.encoder.options import pooling
    from isotune.encoder.pooling import HiddenStates
    from isotune.evaluation import evaluate
    from isotune.evaluation.tasks import task
    from isotune.kernels.memory import tune_process
    from isotune.methods.method import Additions, Batch, Method, View, make_augmentation, method
    from isotune.methods.options.base import AugmentedOptions, MethodOptions
    from isotune.plugins import load_plugin
    from isotune.recipes import add_recipe
    from isotune.training import Result, TrainingFailed, train
    from isotune.views.augmentation import Augmentation, augmentation

    __version__: str

__all__ = [
    "Additions",
    "Augmentation",
    "AugmentedOptions",
    "Batch",
    "Encoder",
    "Head",
    "HiddenStates",
    "InputError",
    "LabelledPair",
    "LabelledSentence",
    "Method",
    "MethodOptions",
    "Packed",
    "Pair",
    "Result",
    "ScoredPair",
    "Sentence",
    "TrainingFailed",
    "Triplet",
    "View",
    "__version__",
    "add_datasets",
    "add_recipe",
    "augmentation",
    "evaluate",
    "head",
    "load_plugin",
    "make_augmentation",
    "method",
    "pooling",
    "task",
    "train",
    "tune_process",
]

# The names that are imported on first use, by module.
_NAMES = {
    "data.catalogue": ("add_datasets",),
    "data.packed": ("Packed",),
    "data.rows": ("LabelledPair", "LabelledSentence", "Pair", "ScoredPair", "Sentence", "Triplet"),
    "encoder.encoder": ("Encoder",),
    "encoder.format.modules": ("head",),
    "encoder.heads": ("Head",),
    "encoder.options": ("pooling",),
    "encoder.pooling": ("HiddenStates",),
    "evaluation": ("evaluate",),
    "evaluation.tasks": ("task",),
    "kernels.memory": ("tune_process",),
    "methods.method": ("Additions", "Batch", "Method", "View", "make_augmentation", "method"),
    "methods.options.base": ("AugmentedOptions", "MethodOptions"),
    "plugins": ("load_plugin",),
    "recipes": ("add_recipe",),
    "training": ("Result", "TrainingFailed", "train"),
    "views.augmentation": ("Augmentation", "augmentation"),
}
_MODULES = {name: f"isotune.{module}" for module, names in _NAMES.items() for name in names}


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
