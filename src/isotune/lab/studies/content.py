"""A run's key: a hash of everything that its result depends on, so that no run is made twice.

A model counts by its content, whatever it is called, data and tasks by name and content; a named dataset by what the
catalogue says it must be, and models that translate by their names.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from isotune.data import DATASETS
from isotune.encoder.format.pretrained import local_folder
from isotune.lab.studies.plan import Run
from isotune.recipes import Recipe

MODEL_FILES = frozenset({".json", ".txt", ".model", ".safetensors"})  # what an encoder is read from
ABOUT = ("title", "paper", "source", "published", "cost", "model")  # of a recipe: what changes nothing


def run_key(run: Run, tasks: Sequence[str]) -> str:
    """The key of a run that is evaluated on these tasks. Each file is read once, until `look_again`.

    Raises:
        InputError: its model isn't there.
    """
    found: dict[str, Any] = {
        "isotune": version("isotune"),
        "model": run_key(run.start, tasks) if run.start else run.model and _model(run.model),
        "encoder": run.encoder.model_dump(),
        "tasks": {task: _source(task.removeprefix("geometry:")) for task in tasks},
    }
    if run.recipe:
        found["recipe"] = {key: value for key, value in run.recipe.table().items() if key not in ABOUT}
        found["data"] = {source: _source(source) for source in _sources(run.recipe)}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:20]


def look_again() -> None:
    """Has files read anew: since they were, they may have changed."""
    _model.cache_clear()
    _source.cache_clear()


def _sources(recipe: Recipe) -> Iterator[str]:
    """All that a recipe reads."""
    yield recipe.dev
    yield from recipe.data
    for stage in recipe.stages:
        inputs = recipe.inputs(stage)
        yield from (*inputs.data, *inputs.dev)


@cache
def _model(model: str) -> str:
    path = Path(model).expanduser()
    if path.is_file():  # word vectors
        return _files([path])
    folder = local_folder(model)
    return _files(sorted(file for file in folder.rglob("*") if file.suffix in MODEL_FILES), folder)


@cache
def _source(source: str) -> str:
    """What a source holds; its name for what isn't on this machine, or isn't a file."""
    name, _, split = source.partition(":")
    if name in DATASETS:
        dataset = DATASETS[name]
        parts = {s: part.sha256 for s, part in dataset.splits.items() if split in ("", s)}
        return json.dumps([parts, *map(_source, dataset.union)])
    paths = (
        [Path(source)] if Path(source).exists() else [Path(path) for path in sorted(glob.glob(source, recursive=True))]
    )
    return _files([path for path in paths if path.is_file()]) or source


def _files(paths: Sequence[Path], folder: Path | None = None) -> str:
    """A hash of the files' content, and of their names below a folder; "" of no file."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            name = path.relative_to(folder).as_posix() if folder else ""
            digest.update(f"{name}:{hashlib.file_digest(file, 'sha256').hexdigest()};".encode())
    return digest.hexdigest() if paths else ""
