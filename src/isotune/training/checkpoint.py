"""Checkpoints: one safetensors file each, written under another name and then moved into place.

A checkpoint is therefore always whole: a process that is killed leaves the previous one. No pickle is written or read;
what isn't a tensor is JSON in the file's header. No random state is saved, since every random number is a function of
the seed and the step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from isotune.encoder.encoder import Encoder
from isotune.encoder.format.modules import HEADS
from isotune.encoder.heads.head import Heads
from isotune.encoder.pooling import Pooling
from isotune.errors import InputError
from isotune.files import replacing
from isotune.training.optimizer import Optimizers


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        stage: the number of the current stage, from 0.
        offset: the number of updates in earlier stages.
        step: the number of updates made in the current stage.
        best_step: the step whose encoder is kept so far, counted over all stages.
        best_file: the name of the file with the weights of that encoder.
        best_score: the score of that encoder; None before the stage's first evaluation, or where the last step is kept.
        last_score: the score at the last evaluation.
        stale: the number of evaluations that count against patience.
        done: whether the stage is over: its steps or its patience are used up.
        start_space: what the collapse monitor measured at step 0 of the stage.
        structure: the encoder's heads, prompt and pooling when the stage began; None in the first stage.
        metrics_bytes: the length of metrics.jsonl at the time of the checkpoint.
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
    structure: dict[str, Any] | None = None
    metrics_bytes: int = 0

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


def save_checkpoint(
    path: Path, progress: Progress, encoder: nn.Module, objectives: nn.Module, optimizers: Optimizers
) -> None:
    """Writes everything that the next step depends on."""
    parts = {
        "encoder": encoder.state_dict(),
        "objectives": objectives.state_dict(),
        "optimizer": optimizers.state_dict(),
    }
    tensors = {f"{name}.{key}": value for name, state in parts.items() for key, value in state.items()}
    save_tensors(path, tensors, asdict(progress))


def load_checkpoint(
    tensors: Mapping[str, Tensor], encoder: nn.Module, objectives: nn.Module, optimizers: Optimizers
) -> None:
    """Gives the encoder, the objectives and the optimisers the state that the checkpoint holds."""
    encoder.load_state_dict(part(tensors, "encoder"))
    objectives.load_state_dict(part(tensors, "objectives"))
    optimizers.load_state_dict(part(tensors, "optimizer"))


def part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `name` and a dot, without that beginning."""
    return {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors without shared memory, which the safetensors format doesn't allow."""
    seen: set[int] = set()
    result = {}
    for key, value in tensors.items():
        result[key] = value.clone() if value.data_ptr() in seen else value.contiguous()
        seen.add(value.data_ptr())
    return result
