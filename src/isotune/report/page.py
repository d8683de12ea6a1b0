"""A run folder's `report.html`: one file without scripts or outside resources, made from the run folder alone.

A run that crashed or was stopped has a report too: only metrics.jsonl is needed, and a section whose file is missing is
left out. Paths, names, warnings and settings are escaped.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isotune.data.datasets import is_stand_in
from isotune.evaluation.results import Correlations, Evaluation, RunEvaluation
from isotune.evaluation.tables import AGGREGATIONS
from isotune.evaluation.tasks import task_title
from isotune.files import read_arrays, read_json, read_toml, verify_checksums, write_text
from isotune.report.figures import before_and_after, learning_curves, space_monitor
from isotune.report.stages import Change, group_by_stage, read_records
from isotune.report.templates import template
from isotune.report.text_changes import CHANGES, NEIGHBOURS, TextChanges


def write_report(run: Path) -> Path:
    """Writes `report.html` into the run folder and returns its path."""
    page = run / "report.html"
    write_text(page, _render(run))
    return page


def _render(run: Path) -> str:
    verify_checksums(run)
    metrics = read_records(run / "metrics.jsonl")
    data, environment = (read_json(run / name, missing_ok=True) for name in ("data.json", "environment.json"))
    environment.pop("finished", None)  # a run is marked as finished after its first report
    settings, evaluated, changes, points = (
        path if (path := run / name).exists() else None
        for name in ("recipe.toml", "evaluation.json", CHANGES, "cosines.npz")
    )
    recipe = read_toml("recipe", settings, {}) if settings else {}
    evaluation = RunEvaluation.read(evaluated) if evaluated else None
    cosines = read_arrays(points) if points else {}
    stages = group_by_stage(metrics, [stage.get("method", "") for stage in recipe.get("stages", [])])
    last_step = max((stage.steps[1] for stage in stages), default=0)
    verdict, helped = _verdict(evaluation, last_step)
    before, after, measures = {}, {}, []
    if evaluation:
        before, after = _correlations(evaluation.before), _correlations(evaluation.after)
        old, new = evaluation.before.scores(), evaluation.after.scores()
        measures = [Change(task_title(name), old[name], score) for name, score in new.items() if name not in after]
    page = template(
        "report.html.j2",
        x100=lambda value: f"{100 * value:.2f}",
        change=lambda before, after: f"{round(100 * after, 2) - round(100 * before, 2):+.2f}",
        task_title=task_title,
    )
    return page.render(
        name=run.resolve().name,
        stages=stages,
        verdict=verdict,
        helped=helped,
        remarks=_remarks(recipe, data, evaluation),
        warnings=metrics["warning"],
        before=before,
        after=after,
        measures=measures,
        intervals={task_title(each.score): each.words for each in evaluation.differences} if evaluation else {},
        aggregations=AGGREGATIONS,
        curves=learning_curves(stages),
        space=space_monitor(stages),
        cosines=before_and_after(cosines) if cosines else "",
        scored=cosines.get("task"),
        changes=TextChanges.read(changes) if changes else None,
        advice=_advice(evaluation) if evaluation else "",
        neighbours=NEIGHBOURS,
        settings=settings and settings.read_text("utf-8"),
        facts={title: facts for title, facts in (("Data", data), ("Environment", environment)) if facts},
        encoder=repr(str(run / "encoder")) if (run / "encoder").exists() else None,
    )


def _remarks(recipe: Mapping[str, Any], data: Mapping[str, Any], evaluation: RunEvaluation | None) -> list[str]:
    """In what the run of a recipe differs from the one whose score is published, apart from its options."""
    if not recipe.get("published"):
        return []
    remarks = []
    sources = [source for feed in data.values() for source in feed["sources"]]
    if others := list(dict.fromkeys(filter(is_stand_in, sources))):
        remarks.append(f"Trained on {', '.join(others)}, which stands in for the published data.")
    after = evaluation.after if evaluation else None
    tasks = {*after.averages, *(task.name for task in after.tasks)} if after else {}
    if after and (missing := [task for task in recipe.get("published_on", ()) if task not in tasks]):
        remarks.append(f"Not evaluated as published, on {', '.join(missing)}.")
    if any(stage.get("attention_dropout") == 0 for stage in recipe["stages"]):
        remarks.append("No attention weights were dropped (attention_dropout 0), as in bfloat16 on a GPU.")
    return [*remarks, f"Published: {recipe['published']}."] if remarks else []


def _correlations(evaluation: Evaluation) -> dict[str, Correlations]:
    named = [(task.name, task) for task in evaluation.tasks] + list(evaluation.averages.items())
    return {name: result for name, result in named if isinstance(result, Correlations)}


HEADLINES = {
    "NEW": "Use the new encoder",
    "KEEP": "Keep what you had",
    "CAN'T TELL": "Nobody can tell which encoder is better",
}


def _verdict(evaluation: RunEvaluation | None, last: int) -> tuple[str, bool]:
    if evaluation is None:
        return f"No verdict yet: the run has no final evaluation. Its last recorded step is {last}.", False
    verdict, kept = evaluation.verdict, f"step {evaluation.selected_step} of {last}"
    changes = "".join(f" {change}." for change in evaluation.changes)
    kept = kept if evaluation.selected_step else "the start"
    return f"{HEADLINES[verdict.word]}: {verdict.why}.{changes} Kept: {kept}.", verdict.word == "NEW"


def _advice(evaluation: RunEvaluation) -> str:
    if evaluation.labels or not evaluation.selected_step:
        return ""
    dev, measure = evaluation.dev, "To be sure, score more pairs with isotune label."
    if dev and not evaluation.dev_is_general:
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
