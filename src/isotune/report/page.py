"""A run folder's `report.html`: one file without scripts or outside resources, made from the run folder alone.

A run that crashed or was stopped has a report too: only metrics.jsonl is needed, and a section whose file is missing is
left out. Paths, names, warnings and settings are escaped.
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray
from pydantic import ValidationError

from isotune.data.datasets import is_stand_in
from isotune.errors import InputError, invalid
from isotune.evaluation.results import (
    Correlations,
    Evaluation,
    RunEvaluation,
)
from isotune.evaluation.tables import AGGREGATIONS
from isotune.evaluation.tasks import task_title
from isotune.files import read_arrays, verify_checksums, write_text
from isotune.report.figures import before_and_after, learning_curves, space_monitor
from isotune.report.stages import Change, MetricsRecord, StageRecords, group_by_stage, read_records
from isotune.report.templates import template
from isotune.report.text_changes import CHANGES, NEIGHBOURS, TextChanges

T = TypeVar("T")


@dataclass(frozen=True)
class RunFiles:
    """The content of a run folder; None for a file that is missing."""

    folder: Path
    stages: Sequence[StageRecords]
    warnings: Sequence[MetricsRecord]
    recipe: str | None
    data: Mapping[str, Any] | None
    environment: Mapping[str, Any] | None
    evaluation: RunEvaluation | None
    cosines: Mapping[str, NDArray[Any]] | None
    changes: TextChanges | None

    @property
    def has_dev(self) -> bool:
        """Whether there was a dev score to choose the encoder by."""
        return any(stage.dev for stage in self.stages)


def write_report(run: Path) -> Path:
    """Writes `report.html` into the run folder and returns its path."""
    page = run / "report.html"
    write_text(page, _render(_read(run)))
    return page


def _read(folder: Path) -> RunFiles:
    verify_checksums(folder)
    metrics = read_records(folder / "metrics.jsonl")
    settings = _parse(folder / "recipe.toml", lambda content: tomllib.loads(content.decode()), "TOML") or {}
    evaluation, cosines = folder / "evaluation.json", folder / "cosines.npz"
    return RunFiles(
        folder=folder,
        stages=group_by_stage(metrics, [stage.get("method", "") for stage in settings.get("stages", [])]),
        warnings=metrics["warning"],
        recipe=_parse(folder / "recipe.toml", bytes.decode, "text"),
        data=_parse(folder / "data.json", json.loads, "JSON"),
        environment=_parse(folder / "environment.json", json.loads, "JSON"),
        evaluation=RunEvaluation.read(evaluation) if evaluation.exists() else None,
        changes=_parse(folder / CHANGES, TextChanges.model_validate_json, "a comparison of text"),
        cosines=read_arrays(cosines) if cosines.exists() else None,
    )


def _parse(path: Path, parse: Callable[[bytes], T], kind: str) -> T | None:
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise invalid(str(path), error) from error
    except ValueError as error:
        raise InputError(f"{path}: not {kind}: {error}") from error


def _render(run: RunFiles) -> str:
    encoder = run.folder / "encoder"
    verdict, helped = _verdict(run)
    # A run is marked as finished after its first report.
    environment = {name: fact for name, fact in (run.environment or {}).items() if name != "finished"}
    page = template(
        "report.html.j2",
        x100=lambda value: f"{100 * value:.2f}",
        change=lambda before, after: f"{round(100 * after, 2) - round(100 * before, 2):+.2f}",
        task_title=task_title,
    )
    return page.render(
        run=run,
        verdict=verdict,
        helped=helped,
        remarks=_remarks(run),
        warnings=_warnings(run.warnings),
        before=_correlations(run.evaluation.before) if run.evaluation else {},
        after=_correlations(run.evaluation.after) if run.evaluation else {},
        measures=_other_changes(run.evaluation) if run.evaluation else [],
        intervals={task_title(each.score): each.words for each in run.evaluation.differences} if run.evaluation else {},
        aggregations=AGGREGATIONS,
        curves=learning_curves(run.stages),
        space=space_monitor(run.stages),
        cosines=before_and_after(run.cosines) if run.cosines else "",
        advice=_advice(run),
        neighbours=NEIGHBOURS,
        facts={title: facts for title, facts in (("Data", run.data), ("Environment", environment)) if facts},
        overlap=[
            (stage, task, counts)
            for stage, facts in (run.data or {}).items()
            if isinstance(facts, dict)
            for task, counts in facts.get("overlap", {}).items()
        ],
        encoder=repr(str(encoder)) if encoder.exists() else None,
    )


def _remarks(run: RunFiles) -> list[str]:
    """In what the run of a recipe differs from the one whose score is published, apart from its options."""
    recipe = tomllib.loads(run.recipe or "")
    if not recipe.get("published"):
        return []
    remarks = []
    sources = [source for feed in (run.data or {}).values() for source in feed["sources"]]
    if others := list(dict.fromkeys(filter(is_stand_in, sources))):
        remarks.append(f"Trained on {', '.join(others)}, which stands in for the published data.")
    tasks = {task.name for task in run.evaluation.after.tasks} if run.evaluation else set()
    tasks |= {*run.evaluation.after.averages} if run.evaluation else set()
    if missing := [task for task in recipe.get("published_on", ()) if run.evaluation and task not in tasks]:
        remarks.append(f"Not evaluated as published, on {', '.join(missing)}.")
    if any(stage.get("attention_dropout") == 0 for stage in recipe["stages"]):
        remarks.append("No attention weights were dropped (attention_dropout 0), as in bfloat16 on a GPU.")
    return [*remarks, f"Published: {recipe['published']}."] if remarks else []


def _correlations(evaluation: Evaluation) -> dict[str, Correlations]:
    named = [(task.name, task) for task in evaluation.tasks] + list(evaluation.averages.items())
    return {name: result for name, result in named if isinstance(result, Correlations)}


def _other_changes(evaluation: RunEvaluation) -> list[Change]:
    before, correlations = evaluation.before.scores(), _correlations(evaluation.after)
    after = {name: score for name, score in evaluation.after.scores().items() if name not in correlations}
    return [Change(task_title(name), before[name], score) for name, score in after.items()]


HEADLINES = {
    "NEW": "Use the new encoder",
    "KEEP": "Keep what you had",
    "CAN'T TELL": "Nobody can tell which encoder is better",
}


def _verdict(run: RunFiles) -> tuple[str, bool]:
    last = max((stage.steps[1] for stage in run.stages), default=0)
    evaluation = run.evaluation
    if evaluation is None:
        return f"No verdict yet: the run has no final evaluation. Its last recorded step is {last}.", False
    verdict, kept = evaluation.verdict, f"step {evaluation.selected_step} of {last}"
    changes = "".join(f" {change}." for change in evaluation.changes)
    kept = kept if evaluation.selected_step else "the start"
    return f"{HEADLINES[verdict.word]}: {verdict.why}.{changes} Kept: {kept}.", verdict.word == "NEW"


def _advice(run: RunFiles) -> str:
    evaluation = run.evaluation
    if evaluation is None or evaluation.labels or not evaluation.selected_step:
        return ""
    dev, measure = evaluation.dev, "To be sure, score more pairs with isotune label."
    if dev:
        old, new, low, high = (100 * value for value in (dev.before, dev.after, dev.low, dev.high))
        gain = (
            f"On the {dev.rows:,} {dev.unit} of {dev.name} that chose the step, {old:.1f} became {new:.1f} "
            f"({new - old:+.1f}; 95 % interval over the {dev.unit} {low:+.1f} to {high:+.1f})."
        )
        if evaluation.verdict.word == "CAN'T TELL":
            return (
                f"{gain} In {100 * dev.ahead:.0f} % of samples of these {dev.unit} the new encoder is ahead. {measure}"
            )
        return f"{gain} The {dev.unit} that choose the step show a little more gain than others would."
    if evaluation.own_tasks:
        return ""
    return "Read the examples below. To measure the encoder, score some pairs with isotune label, and train with --dev."


def _warnings(records: Sequence[MetricsRecord]) -> dict[str, str]:
    steps: dict[str, list[int]] = {}
    for record in records:
        steps.setdefault(record["message"], []).append(record["step"])
    return {
        message: f"step {at[0]}" if len(at) == 1 else f"{len(at)} times, steps {at[0]} to {at[-1]}"
        for message, at in steps.items()
    }
