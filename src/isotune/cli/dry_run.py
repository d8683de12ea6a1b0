"""What a run would read, fetch and write: for `isotune train --dry-run`, a look at a stranger's recipe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isotune.bundled import BUNDLED_MODEL, local_model
from isotune.data.cache import cache_folder
from isotune.data.catalogue import DATASETS
from isotune.data.datasets import available
from isotune.data.sources import files_of
from isotune.evaluation.tasks import GROUPS, TASKS
from isotune.methods import method_class
from isotune.methods.protocols import DerivesRows
from isotune.recipes import Recipe


def describe(plan: Recipe, out: Path) -> list[str]:
    """A line for each thing that a run of this recipe would read, fetch or write. Nothing is read or written.

    Raises:
        InputError: a file of the recipe is not there.
    """
    inputs = [plan.inputs(stage) for stage in plan.stages]
    sources = [(source, "text") for of_stage in inputs for source in of_stage.data]
    sources += [(source, "dev data") for of_stage in inputs for source in of_stage.dev]
    sources += [(plan.dev_pairs, "dev pairs")] if plan.dev_pairs else []
    lines = [line for source, kind in sources for line in _source(source, kind)]
    for task in plan.tasks or plan.published_on:
        named = task in TASKS or task in GROUPS
        lines += [f"read or fetch: task: {task}"] if named else _source(task.removeprefix("geometry:"), "task")
    if not (plan.tasks or plan.published_on):
        lines.append("read: task: the STS tasks that are on this machine, or else the bundled test pairs")
    models = [] if plan.scratch else [plan.model or BUNDLED_MODEL]
    for model in (*models, *(name for of_stage in inputs for name in of_stage.models)):
        path = local_model(model)
        lines.append(f"read: model: {_named(path)}" if path else f"fetch: model: {model}, from the Hugging Face hub")
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
        dataset = DATASETS[name]
        if available(source):
            yield f"read: {kind}: dataset {source}, on this machine"
        else:
            yield f"fetch: {kind}: dataset {source}, from {dataset.hub or dataset.web or 'its members'}"
    elif name == "hub":
        yield f"fetch: {kind}: {source}, from the Hugging Face hub or its cache here"
    else:
        yield from (f"read: {kind}: {_named(path)}" for path in files_of(source))


def _named(path: Path) -> str:
    """The whole path, and whether it leads out of the current folder."""
    whole = path.resolve()
    return str(whole) if whole.is_relative_to(Path.cwd()) else f"{whole} (outside of the current folder)"
