"""The small model and the sentence pairs that come with the package, so that it works without a network.

The README.md of each folder names the source and the licence of its content.
"""

from importlib.resources import files
from pathlib import Path

BUNDLED_MODEL = "bert-tiny"  # the name of the bundled model, wherever a model is named
BUNDLED_DATA = Path(
    str(files(__name__))
)  # the folder of the bundled datasets, with the layout of `$ISOTUNE_DATA`
MODEL_FOLDER = (
    BUNDLED_DATA / BUNDLED_MODEL
)  # of BERT-tiny: two blocks of 128 features, no sentence encoder yet
MODEL_FILES = ("config.json", "modules.json")  # a folder with a model has one of these


def local_model(model: str | Path) -> Path | None:
    """Finds a file or folder on this machine, or the bundled model; None if only the hub can know the name.

    A folder "bert-tiny" takes the place of the bundled model only if it holds a model; it may be the folder of a run.
    """
    path = Path(model).expanduser()
    if str(model) == BUNDLED_MODEL and not any((path / file).exists() for file in MODEL_FILES):
        return MODEL_FOLDER
    return path if path.exists() else None
