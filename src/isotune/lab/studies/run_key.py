"""The key of a run: a hash of everything that its result depends on, so that no run is made twice.

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
from isotune.data import DATASETS
from isotune.encoder import local_folder, short_hash
from isotune.errors import InputError
from isotune.evaluation import named_tasks, source_of
from isotune.files import checksums, file_sha256
from isotune.lab.studies.plan import PlannedRun
from isotune.plugins import loaded_plugins

MODEL_FILES = frozenset(
    {".json", ".txt", ".model", ".safetensors", ".bin"}
)  # the files that an encoder is read from
PACKAGE = Path(isotune.__file__).parent
UNREAD = (
    "cli",
    "lab",
    "recipes",
    "report",
    "use",
)  # folders of the package; what a recipe says counts by itself
# Files in them on which a result depends.
READ = ("lab/studies/job.py", "report/stages.py", "recipes/recipe.py", "recipes/training.py")
# Keys of a recipe that change no result.
DESCRIPTION = (
    "title",
    "paper",
    "source",
    "published",
    "published_on",
    "cost",
    "model",
    "keep_checkpoints",
)


def run_keys(
    runs: Sequence[PlannedRun], tasks: Sequence[str], pairs: Sequence[tuple[str, str]] = ()
) -> tuple[dict[PlannedRun, str], dict[PlannedRun, str]]:
    """The keys of runs, 20 hexadecimal digits each, and why some have none: their model is not on this machine."""
    model_hash, source_hash = cache(_model_hash), cache(_source_hash)
    task_hashes = (
        {str(task): source_hash(source_of(task)) for task in named_tasks(tasks)} if tasks else {}
    )

    @cache
    def key(run: PlannedRun) -> str:
        recipe = run.recipe.table() if run.recipe else {}
        return short_hash(
            {
                "isotune": sources_hash(PACKAGE),
                "plugins": sorted(plugin.sha256 for plugin in loaded_plugins()),
                "model": key(run.start) if run.start else model_hash(run.model),
                "encoder": run.encoder.model_dump(),
                "recipe": {
                    name: value for name, value in recipe.items() if name not in DESCRIPTION
                },
                "data": {
                    source: source_hash(source) for source in (*run.inputs.data, *run.inputs.dev)
                },
                "tasks": task_hashes,
                "classifier_seed": run.classifier_seed,
                "pairs": list(pairs),
            }
        )

    keys, problems = {}, {}
    for run in runs:
        try:
            keys[run] = key(run)
        except InputError as error:
            problems[run] = str(error)
    return keys, problems


@cache
def sources_hash(package: Path) -> str:
    """A hash of the sources on which a result depends, as they are when this is first called."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package).as_posix()
        if path.suffix in (".py", ".toml") and (name in READ or name.split("/")[0] not in UNREAD):
            digest.update(f"{name}:{file_sha256(path)};".encode())
    return digest.hexdigest()


def _model_hash(model: str) -> str:
    folder = local_folder(model)
    files = sorted(file for file in folder.rglob("*") if file.suffix in MODEL_FILES)
    return checksums(folder, (file.relative_to(folder).as_posix() for file in files))


def _source_hash(source: str) -> Any:
    name, _, split = source.partition(":")
    if name in DATASETS:
        dataset = DATASETS[name]
        splits = {
            known: part.sha256 for known, part in dataset.splits.items() if split in ("", known)
        }
        return [splits, *map(_source_hash, dataset.union)]
    name = f"{source}/**" if source and Path(source).is_dir() else source
    paths = [source] if Path(source).is_file() else sorted(glob.glob(name, recursive=True))
    return [file_sha256(path) for path in map(Path, paths) if path.is_file()] or source
