"""What a run would read, fetch and write: for `isotune train --dry-run`, a look at a stranger's recipe.

Nothing is written, and no network is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isotune.bundled import BUNDLED_MODEL, local_model
from isotune.data.cache import cache_folder
from isotune.data.catalogue import DATASETS
from isotune.data.datasets import has_rows
from isotune.data.fetch import members, places_of
from isotune.data.sources import files_of
from isotune.encoder.finished import fetched_model
from isotune.evaluation.tasks import named_tasks, source_of
from isotune.methods import method_class
from isotune.methods.protocols import DerivesRows
from isotune.recipes import Recipe
from isotune.training.run_folder import check_new


def describe(plan: Recipe, out: Path) -> list[str]:
    """A line for each thing that a run of this recipe would read, fetch or write.

    Raises:
        InputError: a file of the recipe is not there, a name is unknown, or there is something in the folder `out`.
    """
    check_new(out)
    inputs = [plan.inputs(stage) for stage in plan.stages]
    sources = [(source, "text") for of_stage in inputs for source in of_stage.data]
    sources += [(source, "dev data") for of_stage in inputs for source in of_stage.dev]
    sources += [(plan.dev_pairs, "dev pairs")] if plan.dev_pairs else []
    tasks = named_tasks(plan.tasks or plan.published_on)
    sources += [(source, f"task {task}") for task in tasks if (source := source_of(task))]
    lines = [line for source, kind in sources for line in _source(source, kind)]
    models = [plan.model or BUNDLED_MODEL]
    lines += [_model(model) for model in (*models, *(name for of_stage in inputs for name in of_stage.models))]
    for stage, of_stage in zip(plan.stages, inputs, strict=True):
        if issubclass(method_class(stage.method), DerivesRows):
            folders = {cache_folder(source) for source in of_stage.data}
            lines += [f"write: cache of derived texts: {_named(folder)}" for folder in sorted(folders)]
    return [*dict.fromkeys(lines), f"write: run: {_named(out)}"]


def _source(source: str, kind: str) -> Iterator[str]:
    """The lines of a source of rows."""
    name = source.partition(":")[0]
    if source == "-":
        yield f"read: {kind}: standard input"
    elif name in DATASETS:
        for member in members(source):
            if has_rows(member):
                yield f"read: {kind}: dataset {member}, on this machine"
            else:
                yield from (f"fetch: {kind}: dataset {member}, from {place}" for place in places_of(member))
    elif name == "hub":
        yield f"fetch: {kind}: {source}, from the Hugging Face hub or its cache here"
    else:
        yield from (f"read: {kind}: {_named(path)}" for path in files_of(source))


def _model(model: str) -> str:
    if path := local_model(model):
        return f"read: model: {_named(path)}"
    if path := fetched_model(model):
        return f"read: model: {model}, fetched before to {path}; the Hugging Face hub is asked for a newer one"
    return f"fetch: model: {model}, from the Hugging Face hub"


def _named(path: Path) -> str:
    """The whole path, and whether it leads out of the current folder."""
    whole = path.resolve()
    return str(whole) if whole.is_relative_to(Path.cwd()) else f"{whole} (outside of the current folder)"
