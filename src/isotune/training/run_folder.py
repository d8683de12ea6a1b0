"""The run folder: made for a new run, opened again by a resumed run."""

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
    """Makes the run folder, with the recipe and a description of the machine.

    Raises:
        InputError: the folder isn't empty, or can't be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder}: this folder exists already; choose another --out, or continue the run with --resume"
        )
    environment = {
        **{name: version(name) for name in ("isotune", "torch", "transformers", "tokenizers", "numpy")},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "started": _now(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "environment.json").open("x") as file:  # of two runs that start at once, one fails here
            file.write(json.dumps(environment, indent=2) + "\n")
        write_text(folder / "recipe.toml", tomli_w.dumps(plan.table()))
    except OSError as error:
        raise InputError(f"{folder}: this folder can't be written ({error.strerror}); choose another --out") from error


def mark_finished(folder: Path) -> None:
    """Stores the fact that the run is finished: its end time in environment.json."""
    path = folder / "environment.json"
    environment = {**json.loads(path.read_text("utf-8")), "finished": _now()}
    write_text(path, json.dumps(environment, indent=2) + "\n")


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder is finished."""
    try:
        return "finished" in json.loads((folder / "environment.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False


def started_recipe(folder: Path) -> Recipe:
    """The recipe of the run that was started in this folder.

    Raises:
        InputError: no run was started there.
    """
    path = folder / "recipe.toml"
    if not path.exists():
        raise InputError(f"{folder}: there is no run to resume (the folder has no recipe.toml)")
    return Recipe.from_table(read_recipe(path), str(path))


def last_checkpoint(folder: Path) -> tuple[dict[str, torch.Tensor], Progress]:
    """The tensors and the progress of the run's last checkpoint; empty if the run was stopped before the first.

    Raises:
        InputError: the checkpoint is damaged, or another version of isotune wrote it.
    """
    path = folder / "last.safetensors"
    if not path.exists():
        return {}, Progress()
    tensors, header = load_tensors(path)
    try:
        return tensors, Progress(**header)
    except TypeError as error:
        raise InputError(
            f"{path}: another version of isotune wrote this checkpoint; start the run again in another folder"
        ) from error


def _now() -> str:
    """The local time, in ISO 8601 form."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
