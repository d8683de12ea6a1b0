"""A run folder's `report.html`: one file without scripts, made from the run folder alone.

The page needs no outside resource. A run that crashed or was stopped has a report too: only
metrics.jsonl is needed, and a section whose file is missing is left out. Paths, names, warnings and
settings are escaped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from isotune.bundled import BUNDLED_MODEL
from isotune.data.datasets import is_stand_in
from isotune.evaluation.results import (
    Correlations,
    Evaluation,
    RunEvaluation,
    place_of_step,
    printed,
    unbeaten_lines,
)
from isotune.evaluation.tables import AGGREGATIONS
from isotune.evaluation.tasks import task_title
from isotune.evaluation.text_changes import CHANGES, NEIGHBOURS, TextChanges
from isotune.files import read_arrays, read_json, read_toml, verify_checksums, write_text
from isotune.report.figures import before_and_after, learning_curves, space_monitor
from isotune.report.stages import (
    METRIC_TITLES,
    OPTIONAL,
    MetricsRecord,
    StageRecords,
    group_by_stage,
    read_records,
)
from isotune.report.templates import template

T = TypeVar("T")
U = TypeVar("U")


def write_report(run: Path) -> Path:
    """Writes `report.html` into the run folder and returns its path."""
    verify_checksums(run, missing_ok=OPTIONAL)
    data = ReportData.read(run)
    page_template = template("report.html.j2", x100=_x100, task_title=task_title)
    text = page_template.render(
        vars(data),
        curves=learning_curves(data.stages),
        space=space_monitor(data.stages),
        cosines=before_and_after(data.points) if data.points else "",
        printed=printed,
        metric_titles=METRIC_TITLES,
        place_of_step=place_of_step,
        aggregations=AGGREGATIONS,
        neighbours=NEIGHBOURS,
    )
    page = run / "report.html"
    write_text(page, text)
    return page


@dataclass(frozen=True)
class ReportData:
    """What the template shows of a run, by the names of its variables.

    What is not known is None or empty.
    """

    name: str

    encoder: str | None
    """The path of the kept encoder as Python writes it."""

    begun: datetime | None
    model: str

    data: Sequence[Mapping[str, Any]]
    """The facts of each feed of rows."""

    facts: Mapping[str, Mapping[str, Any]]
    """All that is known of the data and of the environment, by the title of the section."""

    settings: str | None
    """The text of the recipe."""

    recipe: Mapping[str, Any]

    stand_ins: Sequence[str]
    """The sources that stand in for published data."""

    stages: Sequence[StageRecords]
    last_step: int
    warnings: Sequence[MetricsRecord]
    evaluation: RunEvaluation | None

    before: Mapping[str, Correlations]
    """The correlations of the start, by task and group."""

    after: Mapping[str, Correlations]
    """The correlations of the kept encoder, by task and group."""

    intervals: Mapping[str, str]
    """The interval of each change in words, by score."""

    unbeaten: Sequence[str]
    """Where the kept encoder does not beat a control, a line for each control."""

    changes: TextChanges | None

    points: Mapping[str, NDArray[Any]]
    """The gold scores and the cosines before and after."""

    scored: NDArray[Any] | None
    """The name of the scored pairs."""

    @classmethod
    def read(cls, run: Path) -> "ReportData":
        """Reads the files of a run folder; raises `InputError` if one of them can't be used."""
        records = read_records(run / "metrics.jsonl")
        data = read_json(run / "data.json", missing_ok=True)
        environment = read_json(run / "environment.json", missing_ok=True)
        # A run is marked as finished after its first report.
        environment.pop("finished", None)
        nothing: dict[str, Any] = {}
        recipe = _read_if_there(run / "recipe.toml", _read_recipe, nothing)
        read_text = partial(Path.read_text, encoding="utf-8")
        settings = _read_if_there(run / "recipe.toml", read_text, None)
        evaluation = _read_if_there(run / "evaluation.json", RunEvaluation.read, None)
        points = _read_if_there(run / "cosines.npz", read_arrays, nothing)
        stages = group_by_stage(
            records, [stage.get("method", "") for stage in recipe.get("stages", [])]
        )
        facts = {"Data": data, "Environment": environment}
        before: dict[str, Correlations] = {}
        after: dict[str, Correlations] = {}
        intervals: dict[str, str] = {}
        unbeaten: list[str] = []
        if evaluation is not None:
            before = _correlations(evaluation.before)
            after = _correlations(evaluation.after)
            intervals = {each.score: each.words for each in evaluation.differences}
            unbeaten = unbeaten_lines(evaluation.after, "The encoder “after”", task_title)
        return cls(
            name=run.resolve().name,
            encoder=_encoder_path(run),
            begun=_begun(environment),
            model=_model(recipe),
            data=[feed for feed in data.values() if "rows" in feed],
            facts={title: part for title, part in facts.items() if part},
            settings=settings,
            recipe=recipe,
            stand_ins=_stand_ins(recipe, data),
            stages=stages,
            last_step=max((stage.steps[1] for stage in stages), default=0),
            warnings=records["warning"],
            evaluation=evaluation,
            before=before,
            after=after,
            intervals=intervals,
            unbeaten=unbeaten,
            changes=_read_changes(run, evaluation),
            points=points,
            scored=points.get("task"),
        )


def _encoder_path(run: Path) -> str | None:
    """The path of the kept encoder as Python writes it; None if there is no encoder yet."""
    encoder = run / "encoder"
    if not encoder.exists():
        return None
    return repr(str(encoder))


def _x100(value: float) -> str:
    """A share of 1 in per cent."""
    return f"{100 * value:.2f}"


def _read_if_there(path: Path, read: Callable[[Path], T], missing: U) -> T | U:
    """What is read from a file, or `missing` if there is no such file."""
    if not path.exists():
        return missing
    return read(path)


def _read_recipe(path: Path) -> dict[str, Any]:
    """The recipe as a table."""
    return read_toml("recipe", path, {})


def _read_changes(run: Path, evaluation: RunEvaluation | None) -> TextChanges | None:
    """What training changed between sentences; None if the start was kept, or if it is unknown."""
    if evaluation is None or not evaluation.selected_step:
        return None
    return _read_if_there(run / CHANGES, TextChanges.read, None)


def _begun(environment: Mapping[str, Any]) -> datetime | None:
    """When the run began."""
    if "started" not in environment:
        return None
    return datetime.fromisoformat(environment["started"])


def _model(recipe: Mapping[str, Any]) -> str:
    """The model that a recipe names, which is the bundled one where it names none.

    Empty without a recipe.
    """
    if not recipe:
        return ""
    return recipe.get("model") or BUNDLED_MODEL


def _stand_ins(recipe: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """The sources of a run of a published recipe that stand in for the published data."""
    if not recipe.get("published"):
        return []
    sources = chain(*(feed["sources"] for feed in data.values()))
    return list(dict.fromkeys(filter(is_stand_in, sources)))


def _correlations(evaluation: Evaluation) -> dict[str, Correlations]:
    """The correlations of tasks and groups by their names."""
    tasks = {task.name: task for task in evaluation.tasks}
    named: dict[str, object] = {**tasks, **evaluation.averages}
    return {name: result for name, result in named.items() if isinstance(result, Correlations)}
