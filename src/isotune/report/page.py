"""A run folder's `report.html`: one file that needs nothing else, made from nothing but the run folder.

A run that crashed or was stopped has a page too: only metrics.jsonl is needed, and a section whose file is
missing is left out. Everything the page shows from outside (paths, names, warnings, settings) is escaped.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from isotune.errors import InputError
from isotune.evaluation.results import Correlations, RunEvaluation, STSResult, TransferResult
from isotune.evaluation.tables import AGGREGATIONS
from isotune.evaluation.tasks import task_title
from isotune.files import write_text
from isotune.report.figures import cosine_against_gold, learning_curves, space_monitor
from isotune.report.stages import Record, StageRecords, group_by_stage, read_records
from isotune.report.templates import template


@dataclass(frozen=True)
class Run:
    """What a run folder holds; None is a file that is not there."""

    folder: Path
    stages: Sequence[StageRecords]
    warnings: Sequence[Record]
    recipe: str | None
    data: Mapping[str, Any] | None
    environment: Mapping[str, Any] | None
    evaluation: RunEvaluation | None
    cosines: Mapping[str, NDArray[Any]] | None

    @property
    def last_step(self) -> int:
        """The last step recorded."""
        return max((stage.steps[1] for stage in self.stages), default=0)

    @property
    def has_dev(self) -> bool:
        """Whether there was anything to choose the encoder by."""
        return any(stage.dev for stage in self.stages)


class Verdict(NamedTuple):
    """One sentence on what the run gained, and whether it gained at all."""

    text: str
    helped: bool


class Row(NamedTuple):
    """One line of the before and after table: a task, or where it has no pairs the average of a group."""

    title: str
    pairs: int | None
    before: Correlations
    after: Correlations


class Measure(NamedTuple):
    """What is not a correlation, before and after."""

    title: str
    before: float
    after: float


class Seen(NamedTuple):
    """How much of an evaluation set is in the training text of a stage: shares of its sentences and of its pairs."""

    read: str
    task: str
    sentences: tuple[int, int]
    pairs: tuple[int, int]


def write_report(run: Path) -> Path:
    """Write `report.html` into the run folder and return its path.

    Raises:
        InputError: the folder has no metrics.jsonl, or a file in it is damaged.
    """
    page = run / "report.html"
    text = _render(_read(run))
    write_text(page, text)
    return page


def _read(folder: Path) -> Run:
    evaluation = _text(folder / "evaluation.json")
    try:
        found = None if evaluation is None else RunEvaluation.model_validate_json(evaluation)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{folder / 'evaluation.json'}: {first['msg']} at {first['loc']}") from error
    metrics, recipe = read_records(folder / "metrics.jsonl"), _text(folder / "recipe.toml")
    return Run(
        folder=folder,
        stages=group_by_stage(metrics, _methods(recipe, folder / "recipe.toml")),
        warnings=metrics["warning"],
        recipe=recipe,
        data=_json(folder / "data.json"),
        environment=_json(folder / "environment.json"),
        evaluation=found,
        cosines=_arrays(folder / "cosines.npz"),
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.exists() else None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text: {error}") from error


def _methods(recipe: str | None, path: Path) -> list[str]:
    """The method of each stage."""
    try:
        return [stage.get("method", "") for stage in tomllib.loads(recipe or "").get("stages", [])]
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from error


def _json(path: Path) -> dict[str, Any] | None:
    text = _text(path)
    try:
        return None if text is None else json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON: {error}") from error


def _arrays(path: Path) -> dict[str, NDArray[Any]] | None:
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            return dict(arrays)
    except FileNotFoundError:
        return None
    except (ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"{path}: not a file of arrays: {error}") from error


def _render(run: Run) -> str:
    encoder = run.folder / "encoder"
    page = template("report.html.j2", x100=lambda value: f"{100 * value:.2f}", change=_change)
    return page.render(
        run=run,
        verdict=_verdict(run),
        warnings=_warnings(run.warnings),
        rows=_rows(run.evaluation) if run.evaluation else [],
        measures=_measures(run.evaluation) if run.evaluation else [],
        aggregations=AGGREGATIONS,
        curves=learning_curves(run.stages),
        space=space_monitor(run.stages),
        panels=_panels(run.cosines) if run.cosines else [],
        facts=_facts(run),
        overlap=_overlap(run.data or {}),
        encoder=repr(str(encoder)) if encoder.exists() else None,
    )


def _facts(run: Run) -> dict[str, Mapping[str, Any]]:
    """The sections of what was read and where it ran; the overlap has a table of its own."""
    data = {
        title: {name: value for name, value in part.items() if name != "overlap"} if isinstance(part, dict) else part
        for title, part in (run.data or {}).items()
    }
    return {title: facts for title, facts in (("Data", data), ("Environment", run.environment)) if facts}


def _overlap(data: Mapping[str, Any]) -> list[Seen]:
    return [
        Seen(title, task, (found["sentences"], found["of_sentences"]), (found["pairs"], found["of_pairs"]))
        for title, part in data.items()
        if isinstance(part, dict)
        for task, found in part.get("overlap", {}).items()
    ]


def _panels(cosines: Mapping[str, NDArray[Any]]) -> list[str]:
    return cosine_against_gold(cosines["gold"], {name: cosines[name] for name in ("before", "after")})


def _rows(evaluation: RunEvaluation) -> list[Row]:
    before, after = evaluation.before, evaluation.after
    tasks = [
        Row(task_title(new.name), new.pairs, old, new)
        for old, new in zip(before.tasks, after.tasks, strict=True)
        if isinstance(old, STSResult) and isinstance(new, STSResult)
    ]
    averages = [
        Row(task_title(group), None, old, new)
        for (group, old), new in zip(before.averages.items(), after.averages.values(), strict=True)
        if isinstance(old, Correlations) and isinstance(new, Correlations)
    ]
    return tasks + averages


def _measures(evaluation: RunEvaluation) -> list[Measure]:
    before, after = evaluation.before, evaluation.after
    correlations = {task.name for task in after.tasks if isinstance(task, STSResult)}
    correlations |= {group for group, average in after.averages.items() if isinstance(average, Correlations)}
    old = before.scores()
    return [
        Measure(task_title(name), old[name], new) for name, new in after.scores().items() if name not in correlations
    ]


def _points(evaluation: RunEvaluation) -> list[tuple[str, float, float]]:
    """What the verdict goes by: averages, or else correlations, or else accuracies. Geometry alone tells nothing."""
    before, after = evaluation.before.scores(), evaluation.after.scores()
    kinds = (STSResult, TransferResult)
    tasks = [[task.name for task in evaluation.after.tasks if isinstance(task, kind)] for kind in kinds]
    names = list(evaluation.after.averages) or tasks[0] or tasks[1]
    return [(task_title(name), _tenths(before[name]), _tenths(after[name])) for name in names]


def _verdict(run: Run) -> Verdict:
    if run.evaluation is None:
        return Verdict(
            f"No verdict yet: the run has no final evaluation. Its last recorded step is {run.last_step}.",
            False,
        )
    points = _points(run.evaluation)
    if run.stages and run.stages[-1].own_metric:
        # What the method was trained for comes first; the encoder's similarities are a side effect.
        (whole, *_) = run.stages[-1].scores
        points.insert(0, (f"Dev {whole.name}", _tenths(whole.first), _tenths(whole.last)))
        judged = points[:1]
    else:
        judged = points
    if not points:
        return Verdict("No verdict: the run was evaluated on geometry alone, which doesn't say what is better.", False)
    kept_step = run.evaluation.selected_step
    scores = ", ".join(f"{title} {old:.1f} → {new:.1f} ({new - old:+.1f})" for title, old, new in points)
    if kept_step == 0:
        kept = f"the untouched start ({', '.join(f'{title} {before:.1f}' for title, before, _ in points)})"
        if any(old != new for _, old, new in points):
            kept = f"the start with the method's layers, untrained ({scores})"
        return Verdict(
            f"Training did not help: the encoder kept is {kept}. "
            f"None of the {run.last_step} steps scored better on the dev set.",
            False,
        )
    step = f"best at step {kept_step} of {run.last_step}"
    if not run.has_dev:
        step = f"kept at step {kept_step} of {run.last_step}, without a dev set to choose by"
    gain = round(sum(new - old for _, old, new in judged), 1)
    if gain > 0:
        return Verdict(f"{scores}, {step}.", True)
    found = "made no difference" if gain == 0 else "made the encoder worse"
    return Verdict(f"Training {found}: {scores}, {step}.", False)


def _tenths(score: float) -> float:
    """A score x 100 as the verdict prints it, so that its change is the difference of the numbers shown."""
    return round(100 * score, 1)


def _warnings(records: Sequence[Record]) -> dict[str, str]:
    """Each message once, with the steps it came at."""
    steps: dict[str, list[int]] = {}
    for record in records:
        steps.setdefault(record["message"], []).append(record["step"])
    return {
        message: f"step {at[0]}" if len(at) == 1 else f"{len(at)} times, steps {at[0]} to {at[-1]}"
        for message, at in steps.items()
    }


def _change(before: float, after: float) -> str:
    """The difference x 100 of two correlations, as the numbers shown differ."""
    return f"{round(100 * after, 2) - round(100 * before, 2):+.2f}"
