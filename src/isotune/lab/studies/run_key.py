"""The key of a run: a hash of all that its result depends on, so that no run is made twice.

isotune counts by its sources, which change when a mistake is mended. A model counts by its content,
whatever its name. Data count by name and by the content that this machine reads. Translation models
count by their names. The scores on a task have a key of their own, in the folder of the run: a
training doesn't depend on what it is scored on afterwards.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import isotune
from isotune.data import content_of
from isotune.encoder import local_folder, short_hash
from isotune.errors import InputError
from isotune.evaluation import named_tasks, source_of
from isotune.files import checksums, file_sha256
from isotune.lab.studies.plan import PlannedRun
from isotune.lab.studies.study import PAIRS
from isotune.plugins import plugins_behind

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
    "usual_gain",
    "model",
    "keep_checkpoints",
    "tasks",
)
"""Keys of a recipe that change no result."""


class Keys:
    """The keys of runs and of scores. Each file is read once."""

    def __init__(self) -> None:
        self._model_hash = cache(_model_hash)
        self._content = cache(content_of)
        self._key = cache(self._key_of)

    def runs(
        self, runs: Sequence[PlannedRun]
    ) -> tuple[dict[PlannedRun, str], dict[PlannedRun, str]]:
        """The keys of runs, 20 hexadecimal digits each; and why other runs have none.

        A run has no key if its model is not on this machine.
        """
        by_run = {}
        problems = {}
        for run in runs:
            try:
                by_run[run] = self._key(run)
            except InputError as error:
                problems[run] = str(error)
        return by_run, problems

    def scores(
        self,
        tasks: Sequence[str],
        pairs: Sequence[tuple[str, str]] = (),
        classifier_seed: int | None = None,
        timed: Sequence[str] = (),
    ) -> dict[str, str]:
        """The keys of a run's scores: on each task of a group, and on pairs as `PAIRS`.

        `timed` are the scores that are seconds of encoding.
        """
        names: list[str] = []
        if tasks:
            names = list(map(str, named_tasks(tasks)))
        keys = {}
        for name in names:
            content = [name, self._content(source_of(name)), classifier_seed]
            keys[name] = short_hash([*content, _plugins_behind(name)])
        if pairs:
            keys[PAIRS] = short_hash(list(pairs))
        for score in timed:
            _, _, name = score.partition(":")
            keys[score] = short_hash([score, self._content(source_of(name))])
        return keys

    def _key_of(self, run: PlannedRun) -> str:
        recipe = run.recipe.table() if run.recipe else {}
        start = self._key(run.start) if run.start else self._model_hash(run.model)
        sources = [*run.inputs.data, *run.inputs.dev]
        # An untrained model is scored with every seed of its classifiers. That of a training is
        # its own.
        seed = None if run.recipe else run.classifier_seed
        encoder = run.encoder.model_dump()
        counted = {key: recipe[key] for key in recipe if key not in DESCRIPTION}
        return short_hash(
            {
                "isotune": sources_hash(PACKAGE),
                "plugins": _plugins_behind([encoder, counted]),
                "model": start,
                "encoder": encoder,
                "recipe": counted,
                "data": {source: self._content(source) for source in sources},
                "classifier_seed": seed,
            }
        )


def _plugins_behind(content: Any) -> list[str]:
    """The SHA-256 of the plugins that add a name which stands somewhere in the content."""
    names = set()
    for word in _words(content):
        names |= {word, word.partition(":")[0]}
    return sorted(plugin.sha256 for plugin in plugins_behind(names))


def _words(content: Any) -> Iterator[str]:
    """The strings in a nested table."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for value in content.values():
            yield from _words(value)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from _words(value)


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
