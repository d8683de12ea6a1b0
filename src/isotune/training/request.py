"""What `train` was given, checked: a value that never changes.

Refusals of the arguments by themselves are here. What does not fit a recipe is refused in recipes/.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from isotune.data.sources import FromPython, checked_rows, items_of
from isotune.errors import InputError
from isotune.evaluation import TaskRows
from isotune.recipes import Recipe, recipe_of_model
from isotune.training.run_folder import DEV, START, TASKS

Sources = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Choice:
    """Which recipe a run follows."""

    recipe: str | Path | None
    """A recipe's name or file."""

    method: str | None
    """A method whose defaults replace a recipe."""

    pairs: Sequence[str] | None
    """The columns of two texts that belong together."""

    stand_ins: bool
    """Whether other data stand in for published data that are only on the hub."""

    resume: bool
    """Whether the run in the folder goes on."""


@dataclass(frozen=True)
class Request:
    """What `train` was given, checked."""

    folder: Path
    """The run folder."""

    sources: tuple[str, ...]
    """Names of files and datasets; empty for those of the recipe, or if there are `rows`."""

    rows: Iterable[FromPython] | None
    """Rows from Python in place of the sources. They can be read several times."""

    choice: Choice
    """Which recipe the run follows."""

    options: Mapping[str, Any]
    """Values that differ from the recipe's.

    Objects in memory are replaced by the names of their copies.
    """

    model: Any
    """The start: a name, or an encoder in memory; None for the bundled model."""

    savers: tuple[Callable[[], object], ...]
    """What saves the objects in memory into the folder of a new run."""


def checked_request(
    sources: Sources,
    rows: Iterable[FromPython] | None,
    out: str | Path | None,
    choice: Choice,
    options: Mapping[str, Any],
) -> Request:
    """Checks what `train` was given.

    Raises:
        InputError: an argument has a wrong type, or contradicts another.
    """
    model = options.get("model")
    folder = _run_folder(out, choice, model, options.get("teachers"))
    names_of_copies, savers = _copies(options, folder)
    names = _checked_sources(sources)
    rows = _checked_rows(rows)
    if names and rows is not None:
        raise InputError("sources and rows are both given; give one of them")
    others = (choice.recipe, choice.method, choice.pairs, options, names, choice.stand_ins)
    if choice.resume and any(others):
        raise InputError(
            "resume continues a run as it was started; leave out the sources and all options"
        )
    return Request(folder, names, rows, choice, {**options, **names_of_copies}, model, savers)


def refuse_rows_for_sources(request: Request, recipe: Recipe) -> None:
    """Refuses to resume with rows a run that was started with sources."""
    if request.rows is not None and recipe.data:
        raise InputError(f"{request.folder}: this run was started with sources; leave out the rows")


def default_folder(
    recipe: str | Path | None,
    method: str | None,
    model: object,
    pairs: object = None,
    teachers: object = None,
) -> Path:
    """The folder of a run that was given none: runs/RECIPE-DATE-TIME.

    Raises:
        InputError: the run has several processes, which would name several folders.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise InputError("a run of several processes needs out: the folder that all of them know")
    name = Path(recipe or method or recipe_of_model(model, pairs, teachers)).stem
    return Path("runs", f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")


def _run_folder(out: object, choice: Choice, model: object, teachers: object) -> Path:
    if isinstance(out, str | Path):
        return Path(out)
    if out is not None:
        raise InputError(f"out: the folder of the run is needed, not {out!r:.80}")
    if choice.resume:
        raise InputError("resume needs out: the folder of the run to resume")
    return default_folder(choice.recipe, choice.method, model, choice.pairs, teachers)


def _copies(
    options: Mapping[str, Any], folder: Path
) -> tuple[dict[str, Any], tuple[Callable[[], object], ...]]:
    """For options that are objects in memory: the names of their copies, and what saves them."""
    names: dict[str, Any] = {}
    savers: list[Callable[[], object]] = []

    def name_of(task: object, part: str) -> object:
        if not isinstance(task, TaskRows):
            return task
        savers.append(partial(task.save, folder / part))
        return task.name_in(folder / part)

    model = options.get("model")
    if not isinstance(model, str | Path | None):
        if not hasattr(model, "save"):
            raise InputError(f"model: a name, or an encoder, is needed, not {model!r:.80}")
        names["model"] = str(folder / START)
        savers.append(partial(model.save, str(folder / START)))
    if "dev" in options:
        names["dev"] = name_of(options["dev"], DEV)
    tasks = options.get("tasks")
    if isinstance(tasks, TaskRows):
        tasks = [tasks]
    if isinstance(tasks, Iterable) and not isinstance(tasks, str):
        names["tasks"] = [name_of(task, TASKS) for task in tasks]
    return names, tuple(savers)


def _checked_sources(sources: Any) -> tuple[str, ...]:
    if isinstance(sources, str | Path):
        return (str(sources),)
    if sources is None:
        return ()
    named = isinstance(sources, Sequence) and all(isinstance(name, str | Path) for name in sources)
    if not named:
        raise InputError(
            f"sources: names of files or datasets are needed, not {sources!r:.80}; "
            "give rows as rows=..."
        )
    return tuple(str(name) for name in sources)


def _checked_rows(rows: Any) -> Iterable[FromPython] | None:
    """The rows. A stream is read into a list, since each stage reads the rows again."""
    if rows is None:
        return None
    if hasattr(checked_rows(rows), "__next__"):
        return list(items_of(rows))
    return rows
