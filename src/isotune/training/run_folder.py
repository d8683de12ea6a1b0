"""The run folder, which a new run makes and a resumed run opens, and its checkpoints.

A checkpoint is one safetensors file, always whole: a process that is killed leaves the previous
one. Its checksum shows whether a byte has changed since. What isn't a tensor is JSON in the file's
header. No random state is saved, since every random number is a function of the seed and the step.

Only one process at a time holds a run folder. The system frees the lock of a process that has died.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import socket
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
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
from isotune.data.trained_rows import TRAINED_ROWS
from isotune.engine.step import Parts
from isotune.engine.workers import Workers
from isotune.errors import InputError, as_input_error, counted
from isotune.evaluation.run_results import place_of_step
from isotune.kernels.device import gpu_name
from isotune.plugins import loaded_plugins, plugin_words, require_plugins
from isotune.recipes import Recipe, read_recipe
from isotune.report import read_records

ENVIRONMENT = "environment.json"
RECIPE = "recipe.toml"
DATA = "data.json"
METRICS = "metrics.jsonl"
LOG = "train.log"
LOCK = "lock"

LAST = "last.safetensors"
"""The last checkpoint."""

HOLDER = "holder"
"""The file that says whose the lock is. Windows lets nobody read or write a file that is locked."""

CHECKSUM = "recipe_sha256"
"""The key of the recipe's checksum in environment.json."""

START = "start"
"""The folder of a start that was an encoder in memory."""

DEV = "dev"
"""The folder of dev rows that were in memory."""

TASKS = "tasks"
"""The folder of the rows of tasks that were in memory."""

RECORDS = (".json", ".jsonl", ".npz", ".toml")
"""The endings of the files of a finished run that others read."""

UNFINISHED = ("*.part", ".tmp*")
"""The names that isotune and safetensors give to files that are not yet whole."""

FIRST_PARTS = re.compile(rf"\.({re.escape(ENVIRONMENT)}|{re.escape(RECIPE)})\.[0-9a-f]+\.part")
"""The names of the files that `create` has not finished."""

BEFORE_STEPS = re.compile(
    rf"{ENVIRONMENT}|{RECIPE}|{DATA}|{TRAINED_ROWS}|{METRICS}|{LOG}|{START}|{DEV}|{TASKS}"
    r"|set-apart\.(csv|tsv|jsonl)|best-0-0\.safetensors|\..+\.part|\.tmp.*"
)
"""The names of what a run writes before its first step."""

MODEL_CHANGED = (
    "the model has changed since the run was started: put it back, or start again in another folder"
)
DAMAGED = "it was cut short or changed after it was written; start the run again in another folder"


@dataclass
class Progress:
    """How far a run is."""

    stage: int = 0
    """The number of the current stage, from 0."""

    offset: int = 0
    """The number of updates in earlier stages."""

    step: int = 0
    """The number of updates made in the current stage."""

    best_step: int = 0
    """The step whose encoder is kept so far, counted over all stages."""

    best_file: str = ""
    """The name of the file with the weights of that encoder."""

    start_step: int = 0
    """The step whose encoder the stage starts from, counted over all stages."""

    start_share: float = 1.0
    """The share of that encoder, as `best_share`."""

    start_file: str = ""
    """The name of the file with the weights of the stage's start, as long as they are needed."""

    best_share: float = 1.0
    """How much of the way from its stage's start to its step the encoder is that is kept so far."""

    chosen: bool = False
    """Whether the choice among the candidates of the stage has been made."""

    done: bool = False
    """Whether the stage has made its last step: its steps, its patience or its time are used up."""

    owed: bool = False
    """Whether the evaluation of this step is still to be made. A resumed run makes it first."""

    dropped: list[int] = field(default_factory=list)
    """The stages whose new layers were dropped, from 0."""

    ends: list[str] = field(default_factory=list)
    """Why each stage that is over has ended."""

    chunk_size: int | None = None
    """How many rows the stage encodes at a time, where the free memory has decided it."""

    seconds: float = 0.0
    """What the run has taken until the checkpoint, if it has a time limit."""

    metrics_bytes: int = 0
    """The length of metrics.jsonl at the time of the checkpoint."""

    # What the evaluations of the current stage have shown; `Selection` writes it.

    first_score: float | None = None
    """The score of the first encoder that may be kept, mostly the start."""

    best_score: float | None = None
    """None before the stage's first evaluation, or where the last step is kept."""

    last_score: float | None = None
    """The score at the last evaluation."""

    stale: int = 0
    """The number of evaluations that count against patience."""

    start_general: float | None = None
    """The score on general pairs at step 0 of the stage, if it is asked for."""

    start_space: dict[str, float] | None = None
    """What the collapse monitor measured at step 0 of the stage."""

    @property
    def was_evaluated(self) -> bool:
        """Whether the stage had its first evaluation."""
        return self.start_space is not None

    @property
    def over(self) -> bool:
        """Whether the stage is over."""
        return self.done and not self.owed

    @property
    def place_of_best(self) -> str:
        """Which encoder is kept so far, in words."""
        return place_of_step(self.best_step, self.best_share)

    def next_stage(self) -> Progress:
        """The progress at the start of the next stage."""
        return Progress(
            stage=self.stage + 1,
            offset=self.offset + self.step,
            best_step=self.best_step,
            start_step=self.best_step,
            start_share=self.best_share,
            best_share=self.best_share,
            dropped=self.dropped,
            ends=self.ends,
            seconds=self.seconds,
        )

    def go_back_to_start(self) -> None:
        """Takes the start of the run for the start of the stage, which has no step yet."""
        self.best_step = 0
        self.best_share = 1.0
        self.start_step = 0
        self.start_share = 1.0

    def end(self, why: str) -> None:
        """Ends the current stage, unless its last step was made before."""
        if not self.done:
            self.ends.append(why)
        self.done = True


@dataclass(frozen=True)
class OpenedRun:
    """What stands in a run folder."""

    recipe: Recipe
    """The recipe of the run."""

    tensors: Mapping[str, Tensor]
    """The tensors of the last checkpoint; empty for a run that has none."""

    progress: Progress
    """How far the run is."""

    lost: str
    """What the log says about steps that were made and can't be found; empty if there are none."""


@contextmanager
def opened(folder: Path, new: Recipe | None, workers: Workers) -> Iterator[OpenedRun]:
    """Makes the folder of a `new` run, or opens that of a run to resume, while the block runs.

    The folder of a new run that fails before its first step is removed, so that the same command
    can be given again.

    Raises:
        InputError: the folder can't be used, or what resuming needs is damaged or missing.
    """
    with ExitStack() as stack:
        holding = locked(folder, new=new is not None)
        workers.on_rank_zero(stack.enter_context, holding)
        if new is None:
            yield _resumed(folder)
            return
        try:
            workers.on_rank_zero(create, folder, new)
            yield OpenedRun(new, {}, Progress(), "")
        except (Exception, KeyboardInterrupt):
            if workers.is_rank_zero and not _has_trained(folder):
                # The folder was empty or missing. A mount point stays.
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _has_trained(folder: Path) -> bool:
    """Whether there is anything to lose. A finished run has no checkpoint any more."""
    return (folder / LAST).exists() or is_finished(folder)


def _resumed(folder: Path) -> OpenedRun:
    """What a resumed run finds.

    Only when all of it is whole, leftovers of the process before are removed.
    """
    recipe = started_recipe(folder)
    if is_finished(folder):
        # A process that was killed may not have done this any more.
        remove_checkpoints(folder)
        raise InputError(f"{folder}: this run is finished; its report is {folder / 'report.html'}")
    tensors, progress = last_checkpoint(folder)
    for name in (progress.best_file, progress.start_file):
        if name:
            check_tensors(files.inside(folder, name))
    if tensors and not (folder / DATA).exists():
        raise InputError(
            f"{folder / DATA}: this file is missing; it says what the run was trained on so far; "
            "start the run again in another folder"
        )
    lost = "" if tensors else _lost_steps(folder)
    remove_former_best(folder, progress.best_file, progress.start_file)
    # The records that it names are written again.
    files.remove(folder / files.CHECKSUMS)
    return OpenedRun(recipe, tensors, progress, lost)


def _lost_steps(folder: Path) -> str:
    """What the log says where the checkpoint is missing, although steps were made.

    Empty if none were.
    """
    steps = _recorded_steps(folder)
    if not steps:
        return ""
    return (
        f"{folder / LAST} is missing, so the run starts again at its first step; "
        f"{counted(steps, 'step')} that it had made are lost"
    )


def _recorded_steps(folder: Path) -> int:
    """The highest step that metrics.jsonl tells of.

    0 if there is none, or if the file can't be read.
    """
    if not (folder / METRICS).exists():
        return 0
    try:
        records = read_records(folder / METRICS)
    except InputError:
        return 0
    steps = [record.get("step", 0) for kind in records.values() for record in kind]
    return max(steps, default=0)


def best_file(stage: int, step: int, share: float = 1.0) -> str:
    """The name of the file with the weights of the step that a stage keeps.

    They may be at a share of the way from the stage's start to the step.
    """
    if share < 1:
        return f"best-{stage}-{step}-{share:g}.safetensors"
    return f"best-{stage}-{step}.safetensors"


def tensors_of(parts: Parts, left_out: Collection[str] = ()) -> dict[str, Tensor]:
    """The states of named parts without the tensors of some names.

    Those on a GPU as copies in memory.
    """
    tensors: dict[str, Tensor] = {}
    for name, part in parts.items():
        for key, value in part.state_dict().items():
            full_name = f"{name}.{key}"
            if full_name not in left_out:
                tensors[full_name] = value.cpu()
    return tensors


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any] | None = None
) -> None:
    """Writes a safetensors file with a checksum; on a full disk, the file before stays."""
    checksum = _checksum(sorted(tensors.items()), header)
    metadata = json.dumps({"header": header, "crc32": checksum})
    try:
        with files.atomic_write(path) as part, files.rust_writes():
            save_file(_without_shared_memory(tensors), part, {"isotune": metadata})
    except InputError as error:
        raise InputError(
            f"{error}; free some space, and resume the run from the last checkpoint"
        ) from error


def _without_shared_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors; the format allows no two in the same memory."""
    places: set[int] = set()
    unshared = {}
    for name, tensor in tensors.items():
        place = tensor.data_ptr()
        if place in places:
            unshared[name] = tensor.clone()
        else:
            unshared[name] = tensor.contiguous()
        places.add(place)
    return unshared


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """The tensors of a file and its header."""
    with _checkpoint_file(path) as file:
        # Copies: a tensor of the file maps it into memory, and Windows replaces no mapped file.
        tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118 (no dict)
        header = _checked_header(file, sorted(tensors.items()))
        return tensors, header


def check_tensors(path: Path) -> None:
    """Checks that a file of tensors is there and whole, with one tensor in memory at a time."""
    if not path.exists():
        raise InputError(
            f"{path}: this file is missing; it has the weights that the run has kept so far; "
            "start the run again in another folder"
        )
    with _checkpoint_file(path) as file:
        names = sorted(file.keys())
        _checked_header(file, ((name, file.get_tensor(name)) for name in names))


@contextmanager
def _checkpoint_file(path: Path) -> Iterator[Any]:
    damage = SafetensorError, OSError, ValueError, AttributeError
    with (
        as_input_error(damage, f"{path}: this checkpoint is damaged", f": {DAMAGED}"),
        safe_open(path, "pt") as file,
    ):
        yield file


def _checked_header(file: Any, tensors: Iterable[tuple[str, Tensor]]) -> Any:
    """The header of an open file with these tensors in the order of their names.

    Its checksum has to be right.
    """
    metadata = json.loads((file.metadata() or {}).get("isotune", "{}"))
    header = metadata.get("header")
    if metadata.get("crc32") != _checksum(tensors, header):
        raise ValueError("its checksum is wrong, or another version of isotune wrote it")
    return header


def _checksum(tensors: Iterable[tuple[str, Tensor]], header: Mapping[str, Any] | None) -> str:
    """The CRC-32 of a header and of tensors with their names, types and shapes.

    It has 8 hexadecimal digits. The tensors come in the order of their names.
    """
    result = zlib.crc32(json.dumps(header).encode())
    for name, tensor in tensors:
        description = f"{name} {tensor.dtype} {list(tensor.shape)}"
        result = zlib.crc32(description.encode(), result)
        numbers = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        result = zlib.crc32(numbers.numpy().data, result)
    return f"{result:08x}"


def load_parts(tensors: Mapping[str, Tensor], parts: Parts, left_out: Collection[str] = ()) -> None:
    """Gives each part its state from the tensors of a checkpoint.

    What the checkpoint has `left_out` stays as it is.

    Raises:
        InputError: the tensors are those of another model, or the device has too little memory.
    """
    problem = "the checkpoint of the run doesn't fit the model"
    too_large = "the checkpoint of the run doesn't fit into the memory of the device"
    with (
        as_input_error((RuntimeError, LookupError, ValueError), problem, f"; {MODEL_CHANGED}"),
        # The error of a full memory is a RuntimeError too.
        as_input_error(torch.OutOfMemoryError, too_large, "; free some of it, and resume again"),
    ):
        for name, part in parts.items():
            prefix = f"{name}."
            state = {}
            for key, value in part.state_dict().items():
                if prefix + key in left_out:
                    state[key] = value
            for key, value in tensors.items():
                if key.startswith(prefix):
                    state[key.removeprefix(prefix)] = value
            part.load_state_dict(state)


def check_space(folder: Path, encoder: nn.Module, keeps_start: bool = False) -> str:
    """Says how much of the disk a run needs; raises InputError if the disk has less.

    The last checkpoint, of weights, AdamW's two averages and perhaps a fixed copy of the weights,
    and the kept weights stay until the next ones are whole. A stage with candidates between start
    and end keeps the weights of its start too.
    """
    size = sum(tensor.nbytes for tensor in encoder.state_dict().values())
    # The checkpoints of the process that is resumed are replaced.
    replaced = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    copies = 11 if keeps_start else 10
    most = copies * size / 1e6
    free = (shutil.disk_usage(folder).free + replaced) / 1e6
    if free < most:
        raise InputError(
            f"{folder}: the run needs up to {most:,.0f} MB here, and the disk has {free:,.0f} MB; "
            "free some space, or choose another folder"
        )
    return (
        f"up to {most:,.0f} MB during the run, {size / 1e6:,.0f} MB afterwards; "
        f"{free:,.0f} MB are free"
    )


@contextmanager
def locked(folder: Path, new: bool) -> Iterator[None]:
    """Keeps other processes from training in a run folder while the block runs.

    Makes the folder of a `new` run.
    """
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        if new:
            check_new(folder)
            files.make_folder(folder)
        elif not (folder / RECIPE).exists():
            raise InputError(f"{folder}: there is no run to resume (the folder has no {RECIPE})")
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{folder}: another process trains in this folder: {_holder(folder)}; "
            "wait for its end, or stop that process"
        ) from None
    except OSError as error:
        raise _not_writable(folder, error) from error
    try:
        try:
            _take_over(folder, new)
        except OSError as error:
            raise _not_writable(folder, error) from error
        yield
    finally:
        # Windows keeps the lock until its release, which then removes it.
        for path in (folder / HOLDER, folder / LOCK):
            files.remove(path)
        lock.release()


def _take_over(folder: Path, new: bool) -> None:
    """Removes what a killed process has left, and says whose the lock is now."""
    for pattern in UNFINISHED:
        for part in folder.glob(pattern):
            files.remove(part)
    if new:
        # Another process may have trained here between the first look and the lock.
        check_new(folder)
        for path in folder.iterdir():
            if BEFORE_STEPS.fullmatch(path.name):
                files.remove(path)
    (folder / HOLDER).write_text(
        f"process {os.getpid()} on {socket.gethostname()}, since {_now()}", "utf-8", newline="\n"
    )


def _holder(folder: Path) -> str:
    # The other process may end now.
    with suppress(OSError):
        return (folder / HOLDER).read_text("utf-8")
    return ""


def _not_writable(folder: Path, error: OSError) -> InputError:
    return InputError(f"{folder}: this folder can't be written ({error.strerror}); choose another")


def check_new(folder: Path) -> None:
    """Checks that a new run can have this folder.

    A run that was killed before its first step has not begun.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder}: this is a file; choose a new folder")
    names = {path.name for path in folder.iterdir()} - {LOCK, HOLDER}
    strange = {name for name in names if not FIRST_PARTS.fullmatch(name)}
    if strange and not _made_no_step(folder, strange):
        raise InputError(f"{folder}: this folder exists already; choose another, or resume its run")


def _made_no_step(folder: Path, names: Collection[str]) -> bool:
    """Whether a folder with these names is that of a run that was killed before its first step."""
    environment = _environment(folder)
    if CHECKSUM not in environment or "finished" in environment or _recorded_steps(folder):
        return False
    return all(BEFORE_STEPS.fullmatch(name) for name in names)


def create(folder: Path, plan: Recipe) -> None:
    """Writes the recipe and a description of the machine into the folder of a new run."""
    recipe = tomli_w.dumps(plan.table())
    environment: dict[str, Any] = {}
    for name in ("isotune", "torch", "transformers", "tokenizers", "numpy"):
        environment[name] = version(name)
    environment |= {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gpu": gpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "started": _now(),
    }
    plugins = {plugin.path: plugin.sha256 for plugin in loaded_plugins()}
    if plugins:
        environment["plugins"] = plugins
    environment[CHECKSUM] = hashlib.sha256(recipe.encode()).hexdigest()
    files.write_text(folder / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")
    files.write_text(folder / RECIPE, recipe)


def mark_finished(folder: Path) -> None:
    """Stores the checksums of a run's records, and then its end time: the run is finished."""
    environment = json.dumps({**_environment(folder), "finished": _now()}, indent=2) + "\n"
    names = sorted(path.name for path in folder.iterdir() if path.suffix in RECORDS)
    names.remove(ENVIRONMENT)
    sums = files.checksums(folder, names)
    sums += files.checksum_of(environment, ENVIRONMENT)
    files.write_text(folder / files.CHECKSUMS, sums)
    files.write_text(folder / ENVIRONMENT, environment)


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder is finished."""
    return "finished" in _environment(folder)


def resume_command(folder: Path) -> str:
    """The command that goes on with a run which has stopped."""
    return shlex.join(["isotune", "train", "--out", str(folder), "--resume", *plugin_words()])


def _environment(folder: Path) -> dict[str, Any]:
    environment = files.read_json(folder / ENVIRONMENT, missing_ok=True)
    if not isinstance(environment, dict):
        raise InputError(f"{folder / ENVIRONMENT}: no run wrote this file; choose another folder")
    return environment


def started_recipe(folder: Path) -> Recipe:
    """The recipe of the run that was started in this folder."""
    path = folder / RECIPE
    environment = _environment(folder)
    changed = require_plugins(environment.get("plugins", {}), f"run {folder}")
    if changed:
        raise InputError(
            f"run {folder}: the plugin {changed[0]} has changed since the run was started; "
            "put the file back, or start again in another folder"
        )
    if environment.get(CHECKSUM) != hashlib.sha256(path.read_bytes()).hexdigest():
        raise InputError(
            f"{path}: it has changed since the run was started (or {ENVIRONMENT} has, which knows "
            "its SHA-256); put it back, or start again in another folder"
        )
    try:
        return Recipe.from_table(read_recipe(path), str(path))
    except InputError as error:
        raise InputError(
            f"{path}: another version of isotune wrote it, with other options ({error}); "
            "start the run again in another folder"
        ) from error


def last_checkpoint(folder: Path) -> tuple[dict[str, Tensor], Progress]:
    """The tensors and the progress of the run's last checkpoint.

    Empty if the run was stopped before the first.
    """
    path = folder / LAST
    if not path.exists():
        return {}, Progress()
    tensors, header = load_tensors(path)
    problem = f"{path}: another version of isotune wrote it"
    with as_input_error(TypeError, problem, "; start again in another folder"):
        return tensors, Progress(**header)


def remove_former_best(folder: Path, *needed: str) -> None:
    """Deletes all kept weights but the files of these names."""
    for path in folder.glob("best-*.safetensors"):
        if path.name not in needed:
            path.unlink(missing_ok=True)


def remove_checkpoints(folder: Path) -> None:
    """Deletes the checkpoints of a finished run, unless its recipe keeps them."""
    if not read_recipe(folder / RECIPE).get("keep_checkpoints"):
        remove_former_best(folder)
        (folder / LAST).unlink(missing_ok=True)
        files.sync(folder)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
