"""Checkpoints: one safetensors file each, written beside its place and then moved there.

A file is therefore always whole: a process killed at any moment leaves the one before. No pickle is written or read;
what isn't a tensor is JSON in the file's header. Nothing random needs saving, since every random number is a function
of the seed and the step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from isotune.errors import InputError
from isotune.files import replacing
from isotune.training.optimizer import Optimizers


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        stage: the stage it is in, from 0.
        offset: updates of the stages before it.
        step: updates done in it.
        best_step: the step, counted over all stages, whose encoder is kept so far.
        best_file: the name of the file with its weights.
        best_score: what it was chosen by; None before the stage's first evaluation, or where the last step is kept.
        last_score: the same of the last evaluation.
        stale: evaluations that count against patience.
        done: the stage is over (its steps are done, or its patience is).
        start_space: what the collapse monitor measured at the stage's step 0.
        dropped: the stages before it whose new heads were not kept.
        metrics_bytes: length of metrics.jsonl at this moment.
    """

    stage: int = 0
    offset: int = 0
    step: int = 0
    best_step: int = 0
    best_file: str = ""
    best_score: float | None = None
    last_score: float | None = None
    stale: int = 0
    done: bool = False
    start_space: dict[str, float] | None = None
    dropped: list[int] = field(default_factory=list)
    metrics_bytes: int = 0


def best_file(stage: int, step: int) -> str:
    """The name of the file with the weights of a stage's best step."""
    return f"best-{stage}-{step}.safetensors"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any] | None = None) -> None:
    """Writes a safetensors file, whole or not at all.

    Raises:
        InputError: the disk is full or not writable; what was at `path` before is untouched.
    """
    try:
        with replacing(path) as part:
            save_file(_unshared(tensors), part, {"isotune": json.dumps(header)})
            with part.open("rb") as file:
                os.fsync(file.fileno())
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path}: it can't be written ({error}); free some space; --resume goes on from the checkpoint before, if "
            "there is one"
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
            f"{path}: this checkpoint is damaged ({error}); it was cut short or changed since it was written, "
            "so start the run anew in another folder"
        ) from error


def save_checkpoint(
    path: Path, progress: Progress, encoder: nn.Module, method: nn.Module, optimizers: Optimizers
) -> None:
    """Writes everything the next step depends on."""
    parts = {"encoder": encoder.state_dict(), "method": method.state_dict(), "optimizer": optimizers.state_dict()}
    tensors = {f"{name}.{key}": value for name, state in parts.items() for key, value in state.items()}
    save_tensors(path, tensors, asdict(progress))


def load_checkpoint(
    tensors: Mapping[str, Tensor], encoder: nn.Module, method: nn.Module, optimizers: Optimizers
) -> None:
    """Brings the three to where they were when the checkpoint was written."""
    encoder.load_state_dict(part(tensors, "encoder"))
    method.load_state_dict(part(tensors, "method"))
    optimizers.load_state_dict(part(tensors, "optimizer"))


def part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors under a name, without it."""
    return {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, none of them in another one's memory, which the format doesn't know."""
    seen: set[int] = set()
    result = {}
    for key, value in tensors.items():
        result[key] = value.clone() if value.data_ptr() in seen else value.contiguous()
        seen.add(value.data_ptr())
    return result
