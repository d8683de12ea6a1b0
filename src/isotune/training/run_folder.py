"""The run folder: made for a new run, opened again for a resumed one."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

import tomli_w
import torch

from isotune.errors import InputError
from isotune.files import write_text
from isotune.recipes import Recipe, read_recipe
from isotune.training.checkpoint import Progress, load_tensors


def create(folder: Path, plan: Recipe) -> None:
    """Makes the run folder, with what the run is and where it runs.

    Raises:
        InputError: there is something in it already, or it can't be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: it exists already; choose another --out, or go on with it by --resume")
    environment = {
        **{name: version(name) for name in ("isotune", "torch", "transformers", "tokenizers", "numpy")},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "environment.json").open("x") as file:  # of two runs that begin at once, one fails here
            file.write(json.dumps(environment, indent=2) + "\n")
        write_text(folder / "recipe.toml", tomli_w.dumps(plan.table()))
    except OSError as error:
        raise InputError(f"{folder}: it can't be written ({error.strerror}); choose another --out") from error


def started(folder: Path) -> Recipe:
    """The recipe of a run that was started.

    Raises:
        InputError: none was.
    """
    path = folder / "recipe.toml"
    if not path.exists():
        raise InputError(f"{folder}: there is no run to resume (it holds no recipe.toml)")
    return Recipe.from_table(read_recipe(path), str(path))


def last_checkpoint(folder: Path) -> tuple[dict[str, torch.Tensor], Progress]:
    """The run's last checkpoint; an empty one if it was stopped before the first."""
    path = folder / "last.safetensors"
    if not path.exists():
        return {}, Progress()
    tensors, header = load_tensors(path)
    try:
        return tensors, Progress(**header)
    except TypeError as error:
        raise InputError(
            f"{path}: this is no checkpoint of this version of isotune; start the run anew in another folder"
        ) from error
