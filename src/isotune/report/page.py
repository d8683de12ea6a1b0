"""A run folder's `report.html`: one file without scripts or outside resources, made from the run folder alone.

A run that crashed or was stopped has a report too: only metrics.jsonl is needed, and a section whose file is missing is
left out. Paths, names, warnings and settings are escaped.
"""

from datetime import datetime
from pathlib import Path

from isotune.bundled import BUNDLED_MODEL
from isotune.data.datasets import is_stand_in
from isotune.evaluation.results import Correlations, Evaluation, RunEvaluation, printed
from isotune.evaluation.tables import AGGREGATIONS
from isotune.evaluation.tasks import task_title
from isotune.evaluation.text_changes import CHANGES, NEIGHBOURS, TextChanges
from isotune.files import read_arrays, read_json, read_toml, verify_checksums, write_text
from isotune.report.figures import before_and_after, learning_curves, space_monitor
from isotune.report.stages import METRIC_TITLES, OPTIONAL, group_by_stage, read_records
from isotune.report.templates import template


def write_report(run: Path) -> Path:
    """Writes `report.html` into the run folder and returns its path."""
    verify_checksums(run, missing_ok=OPTIONAL)
    metrics = read_records(run / "metrics.jsonl")
    data, environment = (
        read_json(run / name, missing_ok=True) for name in ("data.json", "environment.json")
    )
    environment.pop("finished", None)  # a run is marked as finished after its first report
    settings, evaluated, changes, points = (
        path if (path := run / name).exists() else None
        for name in ("recipe.toml", "evaluation.json", CHANGES, "cosines.npz")
    )
    recipe = read_toml("recipe", settings, {}) if settings else {}
    evaluation = RunEvaluation.read(evaluated) if evaluated else None
    cosines = read_arrays(points) if points else {}
    stages = group_by_stage(
        metrics, [stage.get("method", "") for stage in recipe.get("stages", [])]
    )
    read = (
        (source for feed in data.values() for source in feed["sources"])
        if recipe.get("published")
        else ()
    )
    text = template(
        "report.html.j2",
        x100=lambda value: f"{100 * value:.2f}",
        task_title=task_title,
    ).render(
        printed=printed,
        begun=datetime.fromisoformat(environment["started"]) if "started" in environment else None,
        model=recipe and (recipe.get("model") or BUNDLED_MODEL),
        data=[feed for feed in data.values() if "rows" in feed],
        name=run.resolve().name,
        stages=stages,
        metric_titles=METRIC_TITLES,
        last_step=max((stage.steps[1] for stage in stages), default=0),
        recipe=recipe,
        stand_ins=list(dict.fromkeys(filter(is_stand_in, read))),
        evaluation=evaluation,
        warnings=metrics["warning"],
        before=_correlations(evaluation.before) if evaluation else {},
        after=_correlations(evaluation.after) if evaluation else {},
        intervals={each.score: each.words for each in evaluation.differences} if evaluation else {},
        aggregations=AGGREGATIONS,
        curves=learning_curves(stages),
        space=space_monitor(stages),
        cosines=before_and_after(cosines) if cosines else "",
        scored=cosines.get("task"),
        changes=TextChanges.read(changes)
        if changes and evaluation and evaluation.selected_step
        else None,
        neighbours=NEIGHBOURS,
        settings=settings and settings.read_text("utf-8"),
        facts={
            title: facts for title, facts in (("Data", data), ("Environment", environment)) if facts
        },
        encoder=repr(str(run / "encoder")) if (run / "encoder").exists() else None,
    )
    page = run / "report.html"
    write_text(page, text)
    return page


def _correlations(evaluation: Evaluation) -> dict[str, Correlations]:
    named = [(task.name, task) for task in evaluation.tasks] + list(evaluation.averages.items())
    return {name: result for name, result in named if isinstance(result, Correlations)}
