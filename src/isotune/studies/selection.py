"""How well steps are chosen without labels: criteria against the dev scores of runs that had scored pairs.

A course is the evaluations of a stage of a run. For each criterion it tells two things: the rank correlation of the
criterion with the dev score, and its regret, the dev score that is lost by keeping the step which the criterion likes
best instead of the best one. Rules that look at nothing, such as to keep the last step, are held against them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from isotune.errors import InputError
from isotune.evaluation import correlations
from isotune.evaluation.unlabelled import CHOOSES

Floats = NDArray[np.float64]

ABOUT = ("kind", "stage", "step", "best")  # of a record: what is no criterion
SPACE = {
    "effective_rank": 1,
    "mean_cosine": -1,
}  # what the collapse monitor has, and the sign that makes it a criterion
RULES = {
    "the start": 0.0,
    "a quarter": 0.25,
    "half": 0.5,
    "three quarters": 0.75,
    "the last": 1.0,
}  # shares of the steps


@dataclass(frozen=True, eq=False)
class Course:
    """The E evaluations of a stage.

    Attributes:
        run: the run folder's name; with the stage's number, from 2 on.
        steps: [E].
        dev: [E], the correlation on the dev pairs.
        criteria: name -> [E], higher is better.
    """

    run: str
    steps: Floats
    dev: Floats
    criteria: Mapping[str, Floats]


@dataclass(frozen=True)
class Choice:
    """What a criterion, or a rule, chooses in a course.

    Attributes:
        run: the course's.
        by: the criterion or rule.
        step: the one it keeps.
        regret: the dev score of the best step less that of this one.
        correlation: Spearman's, of criterion and dev score; None for a rule, and where one of them doesn't vary.
    """

    run: str
    by: str
    step: int
    regret: float
    correlation: float | None = None


@dataclass(frozen=True)
class Summary:
    """A criterion, or a rule, over courses.

    Attributes:
        by: its name.
        regret, worst: the mean over the courses, and the largest.
        correlation: the mean over the courses that have one; None if none has.
        between: Spearman's correlation of criterion and dev score over the courses' last evaluations: whether it would
            choose between runs. None for a rule, or if there are fewer than three.
    """

    by: str
    regret: float
    worst: float
    correlation: float | None
    between: float | None


def courses(run: Path) -> list[Course]:
    """The stages of a run folder that were scored on pairs.

    Raises:
        InputError: the folder has no metrics.jsonl, or one without a stage that was scored on pairs, with criteria.
    """
    path = run / "metrics.jsonl"
    try:
        records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: it can't be read ({error}); name folders of runs that are finished") from error
    rows: dict[int, dict[int, dict[str, float]]] = {}
    for record in records:
        row = rows.setdefault(record.get("stage", 0), {}).setdefault(record["step"], {})
        match record["kind"]:
            case "dev" if record["metric"] in ("spearman", "pearson"):
                row["dev"] = record["score"]
            case "unlabelled":
                row |= {key: value for key, value in record.items() if key not in ABOUT}
            case "space":
                row |= {name: sign * record[name] for name, sign in SPACE.items()}
    found = []
    for stage, steps in rows.items():
        whole = {step: row for step, row in steps.items() if "dev" in row and CHOOSES in row}
        if len(whole) > 1:
            columns = {key: np.array([row[key] for row in whole.values()]) for key in next(iter(whole.values()))}
            title = f"{run.name}, stage {stage}" if stage > 1 else run.name
            found.append(Course(title, np.array(list(whole), float), columns.pop("dev"), columns))
    if not found:
        raise InputError(f"{run}: no stage with dev scores and criteria; train with scored pairs as dev")
    return found


def choices(course: Course) -> list[Choice]:
    """What each criterion and each rule chooses."""
    found = []
    for by, values in course.criteria.items():
        both = correlations(course.dev, values) if np.ptp(values) else None
        found.append(_choice(course, by, int(values.argmax()), both and both[0]))
    first, last = course.steps[[0, -1]]
    for by, share in RULES.items():
        place = int(np.abs(course.steps - (first + share * (last - first))).argmin())
        found.append(_choice(course, by, place, None))
    return found


def _choice(course: Course, by: str, place: int, correlation: float | None) -> Choice:
    regret = float(course.dev.max() - course.dev[place])
    return Choice(course.run, by, int(course.steps[place]), regret, correlation)


def summaries(found: Sequence[Course]) -> list[Summary]:
    """Each criterion and rule over courses of one model and one dev set, the least regret first.

    Raises:
        InputError: there is no course.
    """
    if not found:
        raise InputError("no runs to compare criteria on")
    by_name: dict[str, list[Choice]] = {}
    for course in found:
        for choice in choices(course):
            by_name.setdefault(choice.by, []).append(choice)
    dev = np.array([course.dev[-1] for course in found])
    result = []
    for by, made in by_name.items():
        regrets = [choice.regret for choice in made]
        known = [choice.correlation for choice in made if choice.correlation is not None]
        between = None
        if by not in RULES and len(found) > 2:
            both = correlations(dev, np.array([course.criteria[by][-1] for course in found]))
            between = both and both[0]
        result.append(Summary(by, fmean(regrets), max(regrets), fmean(known) if known else None, between))
    return sorted(result, key=lambda one: one.regret)


def selection_table(runs: Iterable[Path]) -> str:
    """The regret of each criterion and rule in each of these runs, x 100, with correlations, in Markdown.

    Raises:
        InputError: see `courses`.
    """
    found = [course for run in runs for course in courses(run)]
    order = summaries(found)
    made = {(choice.run, choice.by): choice for course in found for choice in choices(course)}
    head = ["chosen by", *(course.run for course in found), "mean", "worst", "correlation", "between runs"]
    lines = [head, ["---"] * len(head)]
    for one in order:
        cells = [_cell(made[course.run, one.by]) for course in found]
        means = [f"{100 * one.regret:.2f}", f"{100 * one.worst:.2f}", _signed(one.correlation), _signed(one.between)]
        lines.append([one.by, *cells, *means])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(choice: Choice) -> str:
    correlation = _signed(choice.correlation)
    return f"{100 * choice.regret:.2f}" + (f" ({correlation})" if correlation else "")


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"
