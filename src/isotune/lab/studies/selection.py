"""How well steps are chosen without labels: criteria against the dev scores of runs that had scored pairs.

A course is the evaluations of a stage of a run. For each criterion it tells two things: the rank correlation of the
criterion with the dev score, and its regret, the dev score that is lost by keeping the step which the criterion likes
best instead of the best one. Rules that look at nothing, such as to keep the last step, are held against them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np

from isotune.evaluation import correlations
from isotune.evaluation.unlabelled import SELECTION_CRITERION
from isotune.lab.studies.statistics import Floats
from isotune.report.stages import read_records

ABOUT = ("kind", "stage", "step", "best")  # of a record: what is no criterion
# What the monitor of the space has, and the sign that makes it a criterion.
SPACE = {"effective_rank": 1, "mean_cosine": -1}
RULES = {"the start": 0.0, "a quarter": 0.25, "half": 0.5, "three quarters": 0.75, "the last": 1.0}  # of the steps


@dataclass(frozen=True, eq=False)
class Course:
    """The E evaluations of a stage.

    Attributes:
        steps: [E].
        dev: [E], the correlation on the dev pairs.
        criteria: name -> [E], higher is better.
    """

    steps: Floats
    dev: Floats
    criteria: Mapping[str, Floats]


@dataclass(frozen=True)
class Choice:
    """What a criterion, or a rule, chooses in a course.

    Attributes:
        step: the one it keeps.
        dev: the dev score of that step.
        regret: what the best step's is more.
        value: the criterion's at that step; None for a rule.
        correlation: Spearman's, of criterion and dev score; None for a rule, and where one of them doesn't vary.
    """

    step: int
    dev: float
    regret: float
    value: float | None = None
    correlation: float | None = None


@dataclass(frozen=True)
class Criterion:
    """A criterion, or a rule, over the runs of a study.

    Attributes:
        by: its name.
        regrets: title of a line -> the mean over its courses.
        regret, worst: the mean over all courses, and the largest.
        correlation: the mean over the courses that have one; None if none has.
        between: Spearman's correlation, over the courses, of the criterion with the dev score, each at the step that it
            chooses there: whether it would choose between runs. None for a rule, or if there are fewer than three.
    """

    by: str
    regrets: Mapping[str, float]
    regret: float
    worst: float
    correlation: float | None
    between: float | None


def courses(run: Path) -> list[Course]:
    """The stages of a run folder that were scored on pairs, with criteria; none if it wasn't trained so."""
    path = run / "metrics.jsonl"
    if not path.exists():
        return []
    records = read_records(path)
    rows: dict[int, dict[int, dict[str, float]]] = {}
    for record in chain(*(records.get(kind, ()) for kind in ("space", "unlabelled", "dev"))):
        row = rows.setdefault(record.get("stage", 0), {}).setdefault(record["step"], {})
        match record["kind"]:
            case "dev" if record["metric"] in ("spearman", "pearson"):
                row["dev"] = record["score"]
            case "unlabelled":
                row |= {key: value for key, value in record.items() if key not in ABOUT}
            case "space":
                row |= {name: sign * record[name] for name, sign in SPACE.items()}
    found = []
    for steps in rows.values():
        whole = {step: row for step, row in steps.items() if "dev" in row and SELECTION_CRITERION in row}
        if len(whole) > 1:
            columns = {key: np.array([row[key] for row in whole.values()]) for key in next(iter(whole.values()))}
            found.append(Course(np.array(list(whole), float), columns.pop("dev"), columns))
    return found


def choices(course: Course) -> dict[str, Choice]:
    """What each criterion and each rule chooses."""
    found = {}
    for by, values in course.criteria.items():
        both = correlations(course.dev, values) if np.ptp(values) else None
        place = int(values.argmax())
        found[by] = _choice(course, place, float(values[place]), both and both[0])
    first, last = course.steps[[0, -1]]
    for by, share in RULES.items():
        found[by] = _choice(course, int(np.abs(course.steps - (first + share * (last - first))).argmin()))
    return found


def _choice(course: Course, place: int, value: float | None = None, correlation: float | None = None) -> Choice:
    dev = float(course.dev[place])
    return Choice(int(course.steps[place]), dev, float(course.dev.max()) - dev, value, correlation)


def judge(lines: Mapping[str, Sequence[Course]]) -> list[Criterion]:
    """Each criterion and rule over the courses of a study's lines, the least regret first; none without courses."""
    made = {title: [choices(course) for course in found] for title, found in lines.items() if found}
    every = [choice for found in made.values() for choice in found]
    # Runs of one study are evaluated alike, so that all have the same criteria.
    result = [
        _over([one[by] for one in every], by, {title: fmean(one[by].regret for one in made[title]) for title in made})
        for by in dict.fromkeys(by for one in every for by in one)
    ]
    return sorted(result, key=lambda one: one.regret)


def _over(made: Sequence[Choice], by: str, regrets: Mapping[str, float]) -> Criterion:
    known = [choice.correlation for choice in made if choice.correlation is not None]
    between = None
    if len(made) > 2 and by not in RULES:
        both = correlations(np.array([one.dev for one in made]), np.array([one.value for one in made]))
        between = both and both[0]
    return Criterion(
        by,
        regrets,
        fmean(choice.regret for choice in made),
        max(choice.regret for choice in made),
        fmean(known) if known else None,
        between,
    )
