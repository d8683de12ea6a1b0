"""What a model's name stands for on this machine. No torch here."""

from __future__ import annotations

from pathlib import Path

from isotune.bundled import BUNDLED_MODEL, bundled_model

MODEL_FILES = ("config.json", "modules.json")  # a folder with neither holds no model


def local_model(model: str | Path) -> Path | None:
    """A file or folder on this machine, or the bundled model; None of a name that only the hub can know.

    A folder called "mini" is meant by that name only if it holds a model, and not if it is, say, a run's.
    """
    path = Path(model).expanduser()
    if str(model) == BUNDLED_MODEL and not any((path / file).exists() for file in MODEL_FILES):
        return bundled_model()
    return path if path.exists() else None
