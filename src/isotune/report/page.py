"""A run folder's `report.html`: one file, made from the run folder alone.

The page needs no outside resource, and sends nothing: its script looks up the neighbours of a
sentence. A run that crashed or was stopped has a report too: only metrics.jsonl is needed, and a
section whose file is missing is left out. Paths, names, texts, warnings and settings are escaped.
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
from isotune.evaluation.examples import EXAMPLES, Examples, Neighbours
from isotune.evaluation.results import (
    Correlations,
    Evaluation,
    printed,
    unbeaten_lines,
    without_folders,
)
from isotune.evaluation.run_results import FIRST_MEASURE, RunEvaluation, place_of_step
from isotune.evaluation.tables import AGGREGATIONS
from isotune.evaluation.text_changes import CHANGES, NEIGHBOURS, NewNearest, TextChanges
from isotune.files import read_arrays, read_json, read_toml, verify_checksums, write_text
from isotune.report.facts import (
    Facts,
    NextStep,
    Overlap,
    StageWords,
    costs,
    data_facts,
    next_steps,
    overlaps,
    space_words,
    stage_words,
)
from isotune.report.figures import (
    FEWEST_POINTS,
    before_and_after,
    gains,
    learning_curves,
    on_one_axis,
    space_monitor,
)
from isotune.report.share import PICTURE, write_picture
from isotune.report.stages import (
    NEXT,
    OPTIONAL,
    MetricsRecord,
    StageRecords,
    group_by_stage,
    read_records,
)
from isotune.report.templates import template
from isotune.report.titles import score_title, score_titles
from isotune.report.verdict import (
    advised,
    gain_sentence,
    helped,
    open_questions,
    outcome_sentences,
    shared_scores,
)

SHOWN_NEIGHBOURS = 8
"""The sentences with another nearest sentence that the page shows at most."""

T = TypeVar("T")
U = TypeVar("U")


def write_report(run: Path) -> Path:
    """Writes `report.html` into the run folder and returns its path.

    A run with an evaluation also gets the picture for sharing beside the page.
    """
    verify_checksums(run, missing_ok=OPTIONAL)
    data = ReportData.read(run)
    if data.evaluation:
        write_picture(run, data.made, data.evaluation)
    page_template = template(
        "report.html.j2", x100=_x100, percent=_percent, score_title=score_title
    )
    text = page_template.render(
        vars(data),
        **_outcome(data.evaluation),
        **_figures(data),
        nearest=_newly_near(data),
        near=_near(data),
        open_questions=open_questions(data.evaluation, data.examples is not None),
        has_dev=any(stage.dev for stage in data.stages),
        picture=PICTURE,
        printed=printed,
        place_of_step=place_of_step,
        aggregations=AGGREGATIONS,
        ways=_ways([*data.before.values(), *data.after.values()]),
        measures=FIRST_MEASURE,
        neighbours=NEIGHBOURS,
    )
    page = run / "report.html"
    write_text(page, text)
    return page


def _outcome(evaluation: RunEvaluation | None) -> dict[str, Any]:
    """What the page says first."""
    if evaluation is None:
        return {"helped": False, "advice": "", "headline": "", "beside": ""}
    headline = ""
    if evaluation.headline:
        headline = gain_sentence(evaluation.headline)
    return {
        "helped": helped(evaluation),
        "advice": advised(evaluation),
        "beside": " ".join(outcome_sentences(evaluation)),
        "headline": headline,
    }


def _figures(data: "ReportData") -> dict[str, Any]:
    """The figures of the page, each as an SVG element; empty if there is nothing to draw."""
    drawn: dict[str, Any] = {
        "curves": learning_curves(data.stages),
        "space": space_monitor(data.stages),
        "short_space": space_words(data.stages, FEWEST_POINTS),
        "cosines": "",
        "gains": "",
        "scores": "",
    }
    if data.points:
        drawn["cosines"] = before_and_after(data.points)
    if data.evaluation:
        drawn["scores"] = on_one_axis(shared_scores(data.evaluation))
        if data.evaluation.gains:
            drawn["gains"] = gains(data.evaluation.gains)
    return drawn


def _near(data: "ReportData") -> dict[str, Any]:
    """The neighbours that the page's script reads, and the sentence that it shows first."""
    found = _kept_neighbours(data)
    if found is None:
        return {}
    first, *_ = [*found.newly_near(), 0]
    return {**found.model_dump(), "first": first}


def _newly_near(data: "ReportData") -> list[NewNearest]:
    """Sentences with another nearest sentence; of old runs, without the cosines."""
    found = _kept_neighbours(data)
    if found is None:
        return list(data.changes.new_nearest) if data.changes else []
    shown = []
    for number in found.newly_near()[:SHOWN_NEIGHBOURS]:
        before = found.sentences[found.before[number][0]]
        after = found.sentences[found.after[number][0]]
        example = NewNearest(
            sentence=found.sentences[number],
            before=f"{found.before_cosines[number][0]:.2f} {before}",
            after=f"{found.after_cosines[number][0]:.2f} {after}",
        )
        shown.append(example)
    return shown


def _kept_neighbours(data: "ReportData") -> Neighbours | None:
    """The neighbours of the text's sentences; None if the start was kept, or of old runs."""
    if data.changes is None or data.examples is None:
        return None
    return data.examples.neighbours


@dataclass(frozen=True)
class ReportData:
    """What the template shows of a run, by the names of its variables.

    What is not known is None or empty.
    """

    name: str

    encoder: str | None
    """The path of the kept encoder as Python writes it."""

    made: str
    """What the run made, without the folders of its files."""

    summary: Mapping[str, str]
    """What the run trained, by the title of each fact."""

    remarks: Sequence[str]
    """How the run differs from the published one."""

    costs: Mapping[str, str]
    facts: Sequence[Facts]
    """All that is known of the data and of the environment."""

    overlaps: Sequence[Overlap]

    settings: str | None
    """The text of the recipe."""

    stages: Sequence[StageRecords]
    strip: Sequence[StageWords]
    kept: str
    """Which encoder was kept, in words."""

    last_step: int
    warnings: Sequence[MetricsRecord]
    evaluation: RunEvaluation | None

    before: Mapping[str, Correlations]
    """The correlations of the start, by task and group."""

    after: Mapping[str, Correlations]
    """The correlations of the kept encoder, by task and group."""

    titles: Mapping[str, str]
    """The title of each score."""

    intervals: Mapping[str, str]
    """The interval of each change in words, by score."""

    unbeaten: Sequence[str]
    """Where the kept encoder does not beat a control, a line for each control."""

    changes: TextChanges | None
    examples: Examples | None

    points: Mapping[str, NDArray[Any]]
    """The gold scores and the cosines before and after."""

    scored: NDArray[Any] | None
    """The name of the scored pairs."""

    next: Sequence[NextStep]
    """The commands that the log of the run ends with."""

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
        methods = [stage.get("method", "") for stage in recipe.get("stages", [])]
        stages = group_by_stage(records, methods)
        last_step = max((stage.steps[1] for stage in stages), default=0)
        summary = _summary(recipe, data, evaluation)
        return cls(
            name=run.resolve().name,
            encoder=_encoder_path(run),
            made=_made(recipe, data),
            summary=summary,
            remarks=_remarks(recipe, data, evaluation),
            costs=costs(run, evaluation, _begun(environment)),
            facts=_facts(data, environment),
            overlaps=overlaps(data),
            settings=settings,
            stages=stages,
            strip=stage_words(stages, evaluation.ends if evaluation else ()),
            kept=_kept(evaluation, last_step),
            last_step=last_step,
            warnings=records["warning"],
            evaluation=evaluation,
            changes=_read_unless_start(run / CHANGES, TextChanges.read, evaluation),
            examples=_examples(run / EXAMPLES, evaluation),
            points=points,
            scored=points.get("task"),
            next=next_steps(_read_if_there(run / NEXT, read_json, [])),
            **_told(evaluation),
        )


def _told(evaluation: RunEvaluation | None) -> dict[str, Any]:
    """What the tables of scores say."""
    if evaluation is None:
        return {"before": {}, "after": {}, "titles": {}, "intervals": {}, "unbeaten": ()}
    return {
        "before": _correlations(evaluation.before),
        "after": _correlations(evaluation.after),
        "titles": score_titles(evaluation.after.scores()),
        "intervals": {each.score: each.words for each in evaluation.differences},
        "unbeaten": unbeaten_lines(evaluation.after, "The encoder “after”", score_title),
    }


def _summary(
    recipe: Mapping[str, Any], data: Mapping[str, Any], evaluation: RunEvaluation | None
) -> dict[str, str]:
    """The model, and the data that were trained on."""
    summary = {}
    if recipe:
        summary["Model"] = recipe.get("model") or BUNDLED_MODEL
    taught_by = chain(*(stage.get("teachers", ()) for stage in recipe.get("stages", [])))
    teachers = ", ".join(dict.fromkeys(taught_by))
    if teachers:
        summary["Teachers"] = teachers
    feeds = []
    for feed in data.values():
        sources = ", ".join(feed["sources"]) or "rows from Python"
        feeds.append(f"{sources}: {feed['rows']:,} rows")
    if feeds:
        # Stages often share their data.
        summary["Data"] = "; ".join(dict.fromkeys(feeds))
    if evaluation is None:
        summary["Finish"] = "training has not ended"
    return summary


def _made(recipe: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """What the run made, by the names of model and data without their folders."""
    model = without_folders(recipe.get("model") or BUNDLED_MODEL)
    sources = list(dict.fromkeys(chain(*(feed["sources"] for feed in data.values()))))
    if not sources:
        return model
    return f"{model}, trained on {', '.join(without_folders(source) for source in sources)}"


def _remarks(
    recipe: Mapping[str, Any], data: Mapping[str, Any], evaluation: RunEvaluation | None
) -> list[str]:
    """How a run of a published recipe differs from the published one, and what is published."""
    if not recipe.get("published"):
        return []
    remarks = []
    sources = chain(*(feed["sources"] for feed in data.values()))
    stand_ins = list(dict.fromkeys(filter(is_stand_in, sources)))
    if stand_ins:
        remarks.append(
            f"Trained on {', '.join(stand_ins)}, which stands in for the published data."
        )
    if evaluation:
        scores = evaluation.after.scores()
        missing = [task for task in recipe.get("published_on", []) if task not in scores]
        if missing:
            remarks.append(f"Not evaluated as published, on {', '.join(missing)}.")
    dropouts = [stage.get("attention_dropout") for stage in recipe.get("stages", [])]
    if 0 in dropouts:
        remarks.append(
            "No attention weights were dropped (attention_dropout 0), as in bfloat16 on a GPU."
        )
    if remarks:
        remarks.append(f"Published: {recipe['published']}.")
    return remarks


def _facts(data: Mapping[str, Any], environment: Mapping[str, Any]) -> list[Facts]:
    """The facts of the data, and of the environment."""
    found = []
    for title, facts in data_facts(data):
        found.append(Facts(f"Data: {title}", facts))
    if environment:
        named = {name.replace("_", " "): value for name, value in environment.items()}
        found.append(Facts("Environment", named))
    return found


def _kept(evaluation: RunEvaluation | None, last_step: int) -> str:
    if evaluation is None:
        return ""
    if not evaluation.selected_step:
        return evaluation.place_of_kept
    return f"{evaluation.place_of_kept} of {last_step}"


def _encoder_path(run: Path) -> str | None:
    """The path of the kept encoder as Python writes it; None if there is no encoder yet."""
    encoder = run / "encoder"
    if not encoder.exists():
        return None
    return repr(str(encoder))


def _x100(value: float) -> str:
    """A share of 1 in per cent."""
    return f"{100 * value:.2f}"


def _percent(value: float) -> str:
    """A share of 1 in whole per cent."""
    return f"{100 * value:.0f}"


def _read_if_there(path: Path, read: Callable[[Path], T], missing: U) -> T | U:
    """What is read from a file, or `missing` if there is no such file."""
    if not path.exists():
        return missing
    return read(path)


def _read_recipe(path: Path) -> dict[str, Any]:
    """The recipe as a table."""
    return read_toml("recipe", path, {})


def _read_unless_start(
    path: Path, read: Callable[[Path], T], evaluation: RunEvaluation | None
) -> T | None:
    """What is read from a file; None if the start was kept, or if there is no such file."""
    if evaluation is None or not evaluation.selected_step:
        return None
    return _read_if_there(path, read, None)


def _examples(path: Path, evaluation: RunEvaluation | None) -> Examples | None:
    """The examples of a run; those of its classifier alone, if the start was kept."""
    if evaluation is None:
        return None
    examples = _read_if_there(path, Examples.read, None)
    if examples is None or evaluation.selected_step:
        return examples
    if not evaluation.classified:
        return None
    return Examples(labels=examples.labels)


def _ways(results: Sequence[Correlations]) -> Mapping[str, str]:
    """The ways to put subsets together; the first alone where all give the same."""
    for result in results:
        for aggregates in (result.spearman, result.pearson):
            values = {_x100(value) for _, value in aggregates}
            if len(values) > 1:
                return AGGREGATIONS
    first, *_ = AGGREGATIONS
    return {first: AGGREGATIONS[first]}


def _begun(environment: Mapping[str, Any]) -> datetime | None:
    """When the run began."""
    if "started" not in environment:
        return None
    return datetime.fromisoformat(environment["started"])


def _correlations(evaluation: Evaluation) -> dict[str, Correlations]:
    """The correlations of tasks and groups by their names."""
    tasks = {task.name: task for task in evaluation.tasks}
    named: dict[str, object] = {**tasks, **evaluation.averages}
    return {name: result for name, result in named.items() if isinstance(result, Correlations)}
