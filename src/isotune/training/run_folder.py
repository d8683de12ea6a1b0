"""The run folder: made for a new run, opened again by a resumed run, with the checkpoints between the two.

A checkpoint is one safetensors file, written under another name and then moved into place. So a checkpoint is always
whole: a process that is killed leaves the previous one. No pickle is written or read; what isn't a tensor is JSON in
the file's header. No random state is saved, since every random number is a function of the seed and the step.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomli_w
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.encoder.format.modules import HEADS
from isotune.encoder.heads.head import Heads
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from isotune.files import replacing, write_text
from isotune.recipes import Recipe, read_recipe
from isotune.training.optimizer import Optimizers

Parts = Mapping[str, nn.Module | Optimizers]


@dataclass
class Progress:
    """How far a run is."""

    stage: int = 0  # the number of the current stage, from 0
    offset: int = 0  # the number of updates in earlier stages
    step: int = 0  # the number of updates made in the current stage
    best_step: int = 0  # the step whose encoder is kept so far, counted over all stages
    best_file: str = ""  # the name of the file with the weights of that encoder
    best_score: float | None = None  # None before the stage's first evaluation, or where the last step is kept
    last_score: float | None = None  # the score at the last evaluation
    stale: int = 0  # the number of evaluations that count against patience
    done: bool = False  # whether the stage is over: its steps or its patience are used up
    start_space: dict[str, float] | None = None  # what the collapse monitor measured at step 0 of the stage
    structure: dict[str, Any] | None = None  # the `encoder_structure` when the stage began; None in the first stage
    metrics_bytes: int = 0  # the length of metrics.jsonl at the time of the checkpoint

    def next_stage(self, structure: dict[str, Any]) -> Progress:
        """The progress at the start of the next stage, whose encoder has this structure."""
        offset = self.offset + self.step
        return Progress(stage=self.stage + 1, offset=offset, best_step=self.best_step, structure=structure)


def best_file(stage: int, step: int) -> str:
    """The name of the file with the weights of a stage's best step."""
    return f"best-{stage}-{step}.safetensors"


def encoder_structure(encoder: Encoder) -> dict[str, Any]:
    """The encoder's heads, prompt and pooling as JSON values: what its weights don't tell."""
    heads = [{"type": head.type_name.rpartition(".")[2], "config": head.config()} for head in encoder.heads]
    return {"heads": heads, "prompt": encoder.prompt, "pooling": asdict(encoder.pooling)}


def restore_structure(encoder: Encoder, structure: Mapping[str, Any]) -> None:
    """Gives an encoder the heads (with new weights), the prompt and the pooling of `encoder_structure`."""
    heads = [HEADS[head["type"]].from_config(head["config"]) for head in structure["heads"]]
    encoder.heads = Heads(encoder.backbone.dimension, heads).to(encoder.device)
    encoder.prompt = structure["prompt"]
    pooling = structure["pooling"]
    weights = pooling["weights"] and tuple(pooling["weights"])
    encoder.pooling = Pooling(**{**pooling, "layers": tuple(pooling["layers"]), "weights": weights})


def save_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any] | None = None) -> None:
    """Writes a safetensors file, whole or not at all.

    Raises:
        InputError: the disk is full or not writable; an earlier file at `path` stays.
    """
    try:
        with replacing(path) as part:
            save_file(_unshared(tensors), part, {"isotune": json.dumps(header)})
            with part.open("rb") as file:
                os.fsync(file.fileno())
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path}: the file can't be written ({error}); free some space, then --resume continues from the last "
            "checkpoint"
        ) from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """The tensors of a file and its header.

    Raises:
        InputError: the file is damaged.
    """
    try:
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {}).get("isotune", "null"))
            return {key: file.get_tensor(key) for key in file.keys()}, header  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path}: this checkpoint is damaged ({error}): it was cut short or changed after it was written; start "
            "the run again in another folder"
        ) from error


def save_parts(path: Path, parts: Parts, progress: Progress | None = None) -> None:
    """Writes the states of named parts; in a checkpoint also the progress, on which the next step depends."""
    states = {name: part.state_dict() for name, part in parts.items()}
    tensors = {f"{name}.{key}": value for name, state in states.items() for key, value in state.items()}
    save_tensors(path, tensors, None if progress is None else asdict(progress))


def load_parts(tensors: Mapping[str, Tensor], parts: Parts) -> None:
    """Gives each part its state from the tensors of a checkpoint."""
    for name, part in parts.items():
        state = {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}
        part.load_state_dict(state)


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors without shared memory, which the safetensors format doesn't allow."""
    seen: set[int] = set()
    result = {}
    for key, value in tensors.items():
        result[key] = value.clone() if value.data_ptr() in seen else value.contiguous()
        seen.add(value.data_ptr())
    return result


def create(folder: Path, plan: Recipe) -> None:
    """Makes the run folder, with the recipe and a description of the machine.

    Raises:
        InputError: the folder isn't empty, or can't be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: this folder exists already; choose another --out, or continue with --resume")
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


def last_checkpoint(folder: Path) -> tuple[dict[str, Tensor], Progress]:
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
