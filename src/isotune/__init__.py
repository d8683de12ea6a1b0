"""isotune: from a pretrained language model to a sentence encoder, by contrastive learning.

    encoder = isotune.Encoder.load("runs/notes/encoder")
    vectors = encoder.encode(["one sentence", "another"])

Each name is imported when it is first used, so `import isotune` loads neither torch nor transformers. Importing isotune
and using an `Encoder` change no setting of the process; `tune_process` does, for speed. The names of `__all__` keep
their meaning from version to version; `docs/plugins.md` explains those that extend isotune.
"""

from typing import TYPE_CHECKING, Any

from isotune.errors import InputError
from isotune.lazy import lazy
from isotune.plugins import load_plugin

if TYPE_CHECKING:
    from isotune.data.catalogue import add_datasets as add_datasets
    from isotune.data.packed import Packed as Packed
    from isotune.data.rows import LabelledPair as LabelledPair
    from isotune.data.rows import LabelledSentence as LabelledSentence
    from isotune.data.rows import Pair as Pair
    from isotune.data.rows import ScoredPair as ScoredPair
    from isotune.data.rows import Sentence as Sentence
    from isotune.data.rows import Triplet as Triplet
    from isotune.encoder.encoder import Encoder as Encoder
    from isotune.encoder.format.modules import head as head
    from isotune.encoder.heads import Head as Head
    from isotune.encoder.options import pooling as pooling
    from isotune.encoder.pooling import HiddenStates as HiddenStates
    from isotune.evaluation import calibrate as calibrate
    from isotune.evaluation import compare as compare
    from isotune.evaluation import evaluate as evaluate
    from isotune.evaluation.tasks import task as task
    from isotune.kernels.cpu.memory import tune_process as tune_process
    from isotune.methods.method import Additions as Additions
    from isotune.methods.method import Batch as Batch
    from isotune.methods.method import ClosedForm as ClosedForm
    from isotune.methods.method import Feed as Feed
    from isotune.methods.method import Method as Method
    from isotune.methods.method import ScoredFeed as ScoredFeed
    from isotune.methods.method import View as View
    from isotune.methods.method import method as method
    from isotune.methods.options import AugmentedOptions as AugmentedOptions
    from isotune.methods.options import MethodOptions as MethodOptions
    from isotune.recipes import add_recipe as add_recipe
    from isotune.training import Result as Result
    from isotune.training import TrainingFailed as TrainingFailed
    from isotune.training import train as train
    from isotune.use.bulk.add_vectors import AddVectors as AddVectors
    from isotune.views.augmentation import Augmentation as Augmentation
    from isotune.views.augmentation import augmentation as augmentation

    __version__: str

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
    "evaluation": ("calibrate", "compare", "evaluate"),
    "evaluation.tasks": ("task",),
    "kernels.cpu.memory": ("tune_process",),
    "methods.method": ("Additions", "Batch", "ClosedForm", "Feed", "Method", "ScoredFeed", "View", "method"),
    "methods.options": ("AugmentedOptions", "MethodOptions"),
    "recipes": ("add_recipe",),
    "training": ("Result", "TrainingFailed", "train"),
    "use.bulk.add_vectors": ("AddVectors",),
    "views.augmentation": ("Augmentation", "augmentation"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = ["InputError", "__version__", "load_plugin", *_MODULES]
_get = lazy(__name__, _MODULES)


def __getattr__(name: str) -> Any:
    if name != "__version__":
        return _get(name)
    from importlib.metadata import version

    return version("isotune")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
