"""The key of a run: a hash of all that its result depends on, so that no run is made twice.

isotune counts by its sources, which change when a mistake is mended. A model counts by its content,
whatever its name. Data and tasks count by name and content; the content of a named dataset is what
the catalogue says. Translation models count by their names.
"""

import glob
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import isotune
from isotune.data import DATASETS, Dataset
from isotune.encoder import local_folder, short_hash
from isotune.errors import InputError
from isotune.evaluation import named_tasks, source_of
from isotune.files import checksums, file_sha256
from isotune.lab.studies.plan import PlannedRun
from isotune.plugins import loaded_plugins

MODEL_FILES = frozenset({".json", ".txt", ".model", ".safetensors", ".bin"})
"""The endings of the files that an encoder is read from."""

PACKAGE = Path(isotune.__file__).parent

UNREAD = {
    "cli": (),
    "lab": ("studies/job.py",),
    "recipes": ("recipe.py", "training.py"),
    "report": ("stages.py",),
    "use": (),
}
"""The rooms of the package on which no result depends, each but for these files.

What a recipe says counts by itself.
"""

DESCRIPTION = (
    "title",
    "paper",
    "source",
    "published",
    "published_on",
    "cost",
    "gained",
    "model",
    "keep_checkpoints",
)
"""Keys of a recipe that change no result."""


def run_keys(
    runs: Sequence[PlannedRun], tasks: Sequence[str], pairs: Sequence[tuple[str, str]] = ()
) -> tuple[dict[PlannedRun, str], dict[PlannedRun, str]]:
    """The keys of runs, 20 hexadecimal digits each; and why other runs have none.

    A run has no key if its model is not on this machine.
    """
    keys = _Keys(tasks, pairs)
    by_run = {}
    problems = {}
    for run in runs:
        try:
            by_run[run] = keys.key(run)
        except InputError as error:
            problems[run] = str(error)
    return by_run, problems


class _Keys:
    """The keys of runs that are evaluated on the same tasks and pairs. Each file is read once."""

    def __init__(self, tasks: Sequence[str], pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = list(pairs)
        self.model_hash = cache(_model_hash)
        self.source_hash = cache(_source_hash)
        self.key = cache(self._key)
        self.task_hashes = {}
        if tasks:
            for task in named_tasks(tasks):
                self.task_hashes[str(task)] = self.source_hash(source_of(task))

    def _key(self, run: PlannedRun) -> str:
        recipe = run.recipe.table() if run.recipe else {}
        start = self.key(run.start) if run.start else self.model_hash(run.model)
        sources = [*run.inputs.data, *run.inputs.dev]
        return short_hash(
            {
                "isotune": sources_hash(PACKAGE),
                "plugins": sorted(plugin.sha256 for plugin in loaded_plugins()),
                "model": start,
                "encoder": run.encoder.model_dump(),
                "recipe": {key: recipe[key] for key in recipe if key not in DESCRIPTION},
                "data": {source: self.source_hash(source) for source in sources},
                "tasks": self.task_hashes,
                "classifier_seed": run.classifier_seed,
                "pairs": self.pairs,
            }
        )


@cache
def sources_hash(package: Path) -> str:
    """A hash of the sources on which a result depends, as they are when this is first called."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package).as_posix()
        if path.suffix in (".py", ".toml") and _counts(name):
            digest.update(f"{name}:{file_sha256(path)};".encode())
    return digest.hexdigest()


def _counts(name: str) -> bool:
    """Whether a result depends on a file of the package."""
    room, _, file = name.partition("/")
    return room not in UNREAD or file in UNREAD[room]


def _model_hash(model: str) -> str:
    folder = local_folder(model)
    files = sorted(file for file in folder.rglob("*") if file.suffix in MODEL_FILES)
    return checksums(folder, (file.relative_to(folder).as_posix() for file in files))


def _source_hash(source: str) -> Any:
    """What stands for the content of a source: a dataset's checksums, or those of files."""
    name, _, split = source.partition(":")
    if name in DATASETS:
        return _dataset_hash(DATASETS[name], split)
    path = Path(source)
    if path.is_file():
        files = [path]
    elif source and path.is_dir():
        files = _files_like(f"{source}/**")
    else:
        files = _files_like(source)
    return [file_sha256(file) for file in files] or source


def _dataset_hash(dataset: Dataset, split: str) -> list[Any]:
    """The checksums of a dataset's split, or of all splits; and those of what it is a union of."""
    splits = {}
    for name, part in dataset.splits.items():
        if split in ("", name):
            splits[name] = part.sha256
    return [splits, *map(_source_hash, dataset.union)]


def _files_like(pattern: str) -> list[Path]:
    paths = map(Path, sorted(glob.glob(pattern, recursive=True)))
    return [path for path in paths if path.is_file()]
