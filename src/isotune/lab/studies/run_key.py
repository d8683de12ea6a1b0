"""The key of a run: a hash of everything that its result depends on, so that no run is made twice.

A model counts by its content, whatever its name. Data and tasks count by name and content; the content of a named
dataset is what the catalogue says. Translation models count by their names.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from isotune.data import DATASETS
from isotune.encoder.fingerprint import short_hash
from isotune.encoder.format.pretrained import local_folder
from isotune.lab.studies.plan import PlannedRun

MODEL_FILES = frozenset({".json", ".txt", ".model", ".safetensors", ".bin"})  # the files that an encoder is read from
# Keys of a recipe that change no result.
DESCRIPTION = ("title", "paper", "source", "published", "published_on", "cost", "model")


def run_key(run: PlannedRun, tasks: Sequence[str], pairs: Sequence[tuple[str, str]] = ()) -> str:
    """The key of a run that is evaluated on these tasks and pairs: 20 hexadecimal digits.

    The content of a file is read once, until `forget_files` is called.

    Raises:
        InputError: the model is not on this machine.
    """
    content: dict[str, Any] = {
        "isotune": version("isotune"),
        "model": run_key(run.start, tasks, pairs) if run.start else run.model and _model_hash(run.model),
        "encoder": run.encoder.model_dump(),
        "tasks": {task: _source_hash(task.removeprefix("geometry:")) for task in tasks},
    }
    if pairs:
        content["pairs"] = list(pairs)
    if run.classifier_seed is not None:
        content["classifier_seed"] = run.classifier_seed
    if run.recipe:
        content["recipe"] = {key: value for key, value in run.recipe.table().items() if key not in DESCRIPTION}
        inputs = [run.recipe.inputs(stage) for stage in run.recipe.stages]
        of_stages = (source for stage in inputs for source in (*stage.data, *stage.dev))
        sources = (run.recipe.dev, *run.recipe.data, *of_stages)
        content["data"] = {source: _source_hash(source) for source in sources}
    return short_hash(content)


def forget_files() -> None:
    """Makes `run_key` read files again, which may have changed."""
    _model_hash.cache_clear()
    _source_hash.cache_clear()


@cache
def _model_hash(model: str) -> str:
    path = Path(model).expanduser()
    if path.is_file():  # word vectors
        return _hash([path])
    folder = local_folder(model)
    return _hash(sorted(file for file in folder.rglob("*") if file.suffix in MODEL_FILES), folder)


@cache
def _source_hash(source: str) -> str:
    """The content of a source; its name if it is no file on this machine."""
    name, _, split = source.partition(":")
    if name in DATASETS:
        dataset = DATASETS[name]
        splits = {known: part.sha256 for known, part in dataset.splits.items() if split in ("", known)}
        return json.dumps([splits, *map(_source_hash, dataset.union)])
    paths = [source] if Path(source).exists() else sorted(glob.glob(source, recursive=True))
    return _hash([path for path in map(Path, paths) if path.is_file()]) or source


def _hash(paths: Sequence[Path], folder: Path | None = None) -> str:
    """A hash of the files' content and of their names inside `folder`; "" if there are no files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            name = path.relative_to(folder).as_posix() if folder else ""
            digest.update(f"{name}:{hashlib.file_digest(file, 'sha256').hexdigest()};".encode())
    return digest.hexdigest() if paths else ""
