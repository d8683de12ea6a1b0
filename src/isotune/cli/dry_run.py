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
from isotune.recipes import Recipe


def describe(plan: Recipe, out: Path) -> list[str]:
    """A line for each thing that a run of this recipe would read, fetch or write. Nothing is read or written.

    Raises:
        InputError: a file of the recipe is not there.
    """
    lines = [line for stage in plan.stages for source in plan.inputs(stage).data for line in _source(source, "text")]
    lines += [
        line for stage in plan.stages for source in plan.inputs(stage).dev for line in _source(source, "dev data")
    ]
    lines += _source(plan.dev_pairs, "dev pairs") if plan.dev_pairs else []
    for task in plan.tasks or plan.published_on:
        named = task in TASKS or task in GROUPS
        lines += [f"read or fetch: task: {task}"] if named else _source(task.removeprefix("geometry:"), "task")
    if not (plan.tasks or plan.published_on):
        lines.append("read: task: the STS tasks that are on this machine, or else the bundled test pairs")
    models = [] if plan.scratch else [plan.model or BUNDLED_MODEL]
    for model in (*models, *(name for stage in plan.stages for name in plan.inputs(stage).models)):
        path = local_model(model)
        lines.append(f"read: model: {_named(path)}" if path else f"fetch: model: {model}, from the Hugging Face hub")
    for stage in plan.stages:
        if hasattr(method_class(stage.method), "prepare"):
            folders = {cache_folder(source) for source in plan.inputs(stage).data}
            lines += [f"write: cache of derived texts: {_named(folder)}" for folder in sorted(folders)]
    return [*dict.fromkeys(lines), f"write: run: {_named(out)}"]


def _source(source: str, kind: str) -> Iterator[str]:
    """The lines of a source of rows."""
    name = source.partition(":")[0]
    if source == "-":
        yield f"read: {kind}: standard input"
    elif name in DATASETS:
        dataset = DATASETS[name]
        place = "on this machine" if available(source) else f"from {dataset.hub or dataset.web or 'its members'}"
        yield f"{'read' if available(source) else 'fetch'}: {kind}: dataset {source}, {place}"
    elif name == "hub":
        yield f"fetch: {kind}: {source}, from the Hugging Face hub or its cache here"
    else:
        yield from (f"read: {kind}: {_named(path)}" for path in files_of(source))


def _named(path: Path) -> str:
    """The whole path, and whether it leads out of the current folder."""
    whole = path.resolve()
    return str(whole) if whole.is_relative_to(Path.cwd()) else f"{whole} (outside of the current folder)"
