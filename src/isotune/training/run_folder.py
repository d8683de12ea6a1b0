"""The run folder: made for a new run, opened again by a resumed run, with the checkpoints between the two.

A checkpoint is one safetensors file, always whole: a process that is killed leaves the previous one. Its checksum shows
whether a byte has changed since. What isn't a tensor is JSON in the file's header. No random state is saved, since
every random number is a function of the seed and the step.

Only one process at a time holds a run folder. The system frees the lock of a process that has died.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import socket
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomli_w
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from isotune import files
from isotune.engine.step import Parts
from isotune.errors import InputError, telling
from isotune.kernels.device import gpu_name
from isotune.plugins import loaded_plugins, require_plugins
from isotune.recipes import Recipe, read_recipe

ENVIRONMENT = "environment.json"
RECIPE = "recipe.toml"
LAST = "last.safetensors"  # the last checkpoint
LOCK = "lock"
HOLDER = "holder"  # says whose the lock is; Windows lets nobody read or write a file that is locked
CHECKSUM = "recipe_sha256"  # of environment.json
RECORDS = (".json", ".jsonl", ".npz", ".toml")  # the files of a finished run that others read
UNFINISHED = (
    "*.part",
    ".tmp*",
)  # the names of isotune and of safetensors for files that are not yet whole
FIRST_PARTS = re.compile(
    rf"\.({re.escape(ENVIRONMENT)}|{re.escape(RECIPE)})\.[0-9a-f]+\.part"
)  # of `create`


@dataclass
class Progress:
    """How far a run is."""

    stage: int = 0  # the number of the current stage, from 0
    offset: int = 0  # the number of updates in earlier stages
    step: int = 0  # the number of updates made in the current stage
    best_step: int = 0  # the step whose encoder is kept so far, counted over all stages
    best_file: str = ""  # the name of the file with the weights of that encoder
    done: bool = False  # whether the stage is over: its steps or its patience are used up
    dropped: list[int] = field(
        default_factory=list
    )  # the stages whose new layers were dropped, from 0
    ends: list[str] = field(default_factory=list)  # why each stage that is over has ended
    chunk_size: int | None = (
        None  # how many rows the stage encodes at a time, where the free memory has decided it
    )
    seconds: float = 0.0  # what the run has taken until the checkpoint, if it has a time limit
    metrics_bytes: int = 0  # the length of metrics.jsonl at the time of the checkpoint
    # What the evaluations of the current stage have shown; `Selection` writes it.
    first_score: float | None = (
        None  # the score of the first encoder that may be kept, mostly the start
    )
    best_score: float | None = (
        None  # None before the stage's first evaluation, or where the last step is kept
    )
    last_score: float | None = None  # the score at the last evaluation
    stale: int = 0  # the number of evaluations that count against patience
    start_general: float | None = (
        None  # the score on general pairs at step 0 of the stage, if it is asked for
    )
    start_space: dict[str, float] | None = (
        None  # what the collapse monitor measured at step 0 of the stage
    )

    def next_stage(self) -> Progress:
        """The progress at the start of the next stage."""
        offset = self.offset + self.step
        kept = {name: getattr(self, name) for name in ("best_step", "dropped", "ends", "seconds")}
        return Progress(self.stage + 1, offset, **kept)

    def end(self, why: str) -> None:
        """Ends the current stage, if it isn't over."""
        self.ends += [] if self.done else [why]
        self.done = True


def best_file(stage: int, step: int) -> str:
    """The name of the file with the weights of the step that a stage keeps."""
    return f"best-{stage}-{step}.safetensors"


def tensors_of(parts: Parts, left_out: Collection[str] = ()) -> dict[str, Tensor]:
    """The states of named parts without the tensors of some names; those on a GPU as copies in memory."""
    states = {name: part.state_dict() for name, part in parts.items()}
    tensors = {
        f"{name}.{key}": value for name, state in states.items() for key, value in state.items()
    }
    return {name: tensor.cpu() for name, tensor in tensors.items() if name not in left_out}


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any] | None = None
) -> None:
    """Writes a safetensors file with a checksum; on a full disk, the file before stays."""
    metadata = json.dumps({"header": header, "crc32": _checksum(tensors, header)})
    seen: set[int] = set()
    unshared = {}  # the format allows no shared memory
    for key, value in tensors.items():
        unshared[key] = value.clone() if value.data_ptr() in seen else value.contiguous()
        seen.add(value.data_ptr())
    try:
        with files.written(path) as part, files.rust_writes():
            save_file(unshared, part, {"isotune": metadata})
    except InputError as error:
        raise InputError(
            f"{error}; free some space, and resume the run from the last checkpoint"
        ) from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """The tensors of a file and its header."""
    advice = (
        ": it was cut short or changed after it was written; start the run again in another folder"
    )
    damage = SafetensorError, OSError, ValueError, AttributeError
    with (
        telling(damage, f"{path}: this checkpoint is damaged", advice),
        safe_open(path, "pt") as file,
    ):
        metadata = json.loads((file.metadata() or {}).get("isotune", "{}"))
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
        header = metadata.get("header")
        if metadata.get("crc32") != _checksum(tensors, header):
            raise ValueError("its checksum is wrong, or another version of isotune wrote it")
        return tensors, header


def _checksum(tensors: Mapping[str, Tensor], header: Mapping[str, Any] | None) -> str:
    """The CRC-32 of a header and of all tensors with their names, types and shapes: 8 hexadecimal digits."""
    result = zlib.crc32(json.dumps(header).encode())
    for name, tensor in sorted(tensors.items()):
        result = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), result)
        result = zlib.crc32(
            tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data, result
        )
    return f"{result:08x}"


def load_parts(tensors: Mapping[str, Tensor], parts: Parts, left_out: Collection[str] = ()) -> None:
    """Gives each part its state from the tensors of a checkpoint; what was left out there stays as it is."""
    for name, part in parts.items():
        state = {
            key: value for key, value in part.state_dict().items() if f"{name}.{key}" in left_out
        }
        state |= {
            key.removeprefix(f"{name}."): value
            for key, value in tensors.items()
            if key.startswith(f"{name}.")
        }
        part.load_state_dict(state)


def check_space(folder: Path, encoder: nn.Module) -> str:
    """Says how much of the disk a run needs; raises InputError if the disk has less.

    The last checkpoint, of weights, AdamW's two averages and perhaps a fixed copy of the weights, and the kept weights
    stay until the next ones are whole.
    """
    size = sum(tensor.nbytes for tensor in encoder.state_dict().values())
    left = sum(
        path.stat().st_size for path in folder.glob("*.safetensors")
    )  # of the process that is resumed
    most, free = 10 * size / 1e6, (shutil.disk_usage(folder).free + left) / 1e6
    if free < most:
        raise InputError(
            f"{folder}: the run needs up to {most:,.0f} MB here, and the disk has {free:,.0f} MB; free some space, or "
            "choose another folder"
        )
    return f"up to {most:,.0f} MB during the run, {size / 1e6:,.0f} MB afterwards; {free:,.0f} MB are free"


@contextmanager
def held(folder: Path, new: bool) -> Iterator[None]:
    """Keeps other processes from training in a run folder while the block runs; makes the folder of a `new` run."""
    lock, holder = FileLock(folder / LOCK, timeout=0), ""
    try:
        if new:
            check_new(folder)
            files.make_folder(folder)
        elif not (folder / RECIPE).exists():
            raise InputError(f"{folder}: there is no run to resume (the folder has no {RECIPE})")
        lock.acquire()
        for pattern in UNFINISHED:
            for part in folder.glob(pattern):  # what a killed process has left
                files.remove(part)
        (folder / HOLDER).write_text(
            f"process {os.getpid()} on {socket.gethostname()}, since {_now()}", "utf-8"
        )
    except Timeout:
        with suppress(OSError):  # the other process may end now
            holder = (folder / HOLDER).read_text("utf-8")
        raise InputError(
            f"{folder}: another process trains in this folder: {holder}; wait for its end, or stop that process"
        ) from None
    except OSError as error:
        raise InputError(
            f"{folder}: this folder can't be written ({error.strerror}); choose another"
        ) from error
    try:
        yield
    finally:
        for path in (folder / HOLDER, folder / LOCK):
            files.remove(path)  # Windows keeps the lock until its release, which then removes it
        lock.release()


def check_new(folder: Path) -> None:
    """Checks that a new run can have this folder. A run that was killed before its recipe was written has not begun."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: this is a file; choose a new folder")
    if folder.exists():
        names = {path.name for path in folder.iterdir()}
        begun = {LOCK, HOLDER, *([ENVIRONMENT] if CHECKSUM in _environment(folder) else ())}
        if any(name not in begun and not FIRST_PARTS.fullmatch(name) for name in names):
            raise InputError(
                f"{folder}: this folder exists already; choose another, or resume its run"
            )


def create(folder: Path, plan: Recipe) -> None:
    """Writes the recipe and a description of the machine into the folder of a new run."""
    recipe = tomli_w.dumps(plan.table())
    plugins = {plugin.path: plugin.sha256 for plugin in loaded_plugins()}
    environment = {
        **{
            name: version(name)
            for name in ("isotune", "torch", "transformers", "tokenizers", "numpy")
        },
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gpu": gpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "started": _now(),
        **({"plugins": plugins} if plugins else {}),
        CHECKSUM: hashlib.sha256(recipe.encode()).hexdigest(),
    }
    files.write_text(folder / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")
    files.write_text(folder / RECIPE, recipe)


def mark_finished(folder: Path) -> None:
    """Stores the checksums of a run's records, and then the fact that the run is finished: its end time."""
    environment = json.dumps({**_environment(folder), "finished": _now()}, indent=2) + "\n"
    records = sorted(
        path.name
        for path in folder.iterdir()
        if path.suffix in RECORDS and path.name != ENVIRONMENT
    )
    sums = files.checksums(folder, records) + files.checksum_of(environment, ENVIRONMENT)
    files.write_text(folder / files.CHECKSUMS, sums)
    files.write_text(folder / ENVIRONMENT, environment)


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder is finished."""
    return "finished" in _environment(folder)


def _environment(folder: Path) -> dict[str, Any]:
    return dict(files.read_json(folder / ENVIRONMENT, missing_ok=True))


def started_recipe(folder: Path) -> Recipe:
    """The recipe of the run that was started in this folder."""
    path, environment = folder / RECIPE, _environment(folder)
    if changed := require_plugins(environment.get("plugins", {}), f"run {folder}"):
        raise InputError(
            f"run {folder}: the plugin {changed[0]} has changed since the run was started; put the file back, or start "
            "again in another folder"
        )
    if environment.get(CHECKSUM) != hashlib.sha256(path.read_bytes()).hexdigest():
        raise InputError(
            f"{path}: it has changed since the run was started (or {ENVIRONMENT} has, which knows its SHA-256); put it "
            "back, or start again in another folder"
        )
    try:
        return Recipe.from_table(read_recipe(path), str(path))
    except InputError as error:
        raise InputError(
            f"{path}: another version of isotune wrote it, with other options ({error}); start the run again in "
            "another folder"
        ) from error


def last_checkpoint(folder: Path) -> tuple[dict[str, Tensor], Progress]:
    """The tensors and the progress of the run's last checkpoint; empty if the run was stopped before the first."""
    path = folder / LAST
    if not path.exists():
        return {}, Progress()
    tensors, header = load_tensors(path)
    with telling(
        TypeError, f"{path}: another version of isotune wrote it", "; start again in another folder"
    ):
        return tensors, Progress(**header)


def remove_former_best(folder: Path, *named: str) -> None:
    """Deletes all kept weights but the files of these names."""
    for path in folder.glob("best-*.safetensors"):
        if path.name not in named:
            path.unlink(missing_ok=True)


def remove_checkpoints(folder: Path) -> None:
    """Deletes the checkpoints of a finished run, which only resuming needs, unless its recipe keeps them."""
    if not read_recipe(folder / RECIPE).get("keep_checkpoints"):
        remove_former_best(folder)
        (folder / LAST).unlink(missing_ok=True)
        files.sync(folder)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
