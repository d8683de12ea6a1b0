"""Finds the model that a name stands for on this machine. This module imports no torch."""

from __future__ import annotations

from pathlib import Path

from isotune.bundled import BUNDLED_MODEL, bundled_model

MODEL_FILES = ("config.json", "modules.json")  # a folder with a model has one of these


def local_model(model: str | Path) -> Path | None:
    """Finds a file or folder on this machine, or the bundled model; None if only the hub can know the name.

    A folder "mini" takes the place of the bundled model only if it holds a model; it may be the folder of a run.
    """
    path = Path(model).expanduser()
    if str(model) == BUNDLED_MODEL and not any((path / file).exists() for file in MODEL_FILES):
        return bundled_model()
    return path if path.exists() else None
