"""The small model and the sentence pairs that come with the package, so that it works offline.

The README.md of each folder names the source and the licence of its content.
"""

import os
from importlib.resources import files
from pathlib import Path

# The name of the bundled model, wherever a model is named.
BUNDLED_MODEL = "bert-tiny"
# The folder of the bundled datasets has the layout of `$ISOTUNE_DATA`.
BUNDLED_DATA = Path(str(files(__name__)))
# BERT-tiny has two blocks of 128 features. It is no sentence encoder yet.
MODEL_FOLDER = BUNDLED_DATA / BUNDLED_MODEL
# A folder with a model has one of these files.
MODEL_FILES = ("config.json", "modules.json")


def has_model(folder: Path) -> bool:
    """Whether a folder holds a model."""
    return any(os.path.exists(folder / file) for file in MODEL_FILES)


def local_model(model: str | Path) -> Path | None:
    """Finds a file or folder on this machine, or the bundled model; None if only the hub may know.

    A folder "bert-tiny" takes the place of the bundled model only if it holds a model; it may be
    the folder of a run.
    """
    # os.path takes any text; Path raises errors for unknown users (~nobody) and for long names.
    path = Path(os.path.expanduser(model))
    if str(model) == BUNDLED_MODEL and not has_model(path):
        return MODEL_FOLDER
    if os.path.exists(path):
        return path
    return None
