"""How well a stage's best step is chosen without labels: criteria, compared with the dev scores of the same run.

A course is the series of evaluations of a stage. Two numbers judge a criterion on a course: its rank correlation with
the dev score, and its regret, the dev score that is lost by keeping the criterion's best step instead of the truly best
one. Rules that look at nothing, such as "keep the last step", are judged beside the criteria.
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

NOT_CRITERIA = ("kind", "stage", "step", "best")  # other keys of a record of criteria
# The collapse monitor's numbers that are criteria too; the sign makes higher values better.
SPACE = {"effective_rank": 1, "mean_cosine": -1}
# The share of the steps after which each rule stops.
RULES = {"the start": 0.0, "a quarter": 0.25, "half": 0.5, "three quarters": 0.75, "the last": 1.0}


@dataclass(frozen=True, eq=False)
class Course:
    """The E evaluations of a stage."""

    steps: Floats  # [E]
    dev: Floats  # [E] correlations on the dev pairs
    criteria: Mapping[str, Floats]  # name -> [E] values, higher is better


@dataclass(frozen=True)
class Choice:
    """The step that a criterion or a rule keeps of a course."""

    step: int  # the kept step
    dev: float  # its dev score
    regret: float  # the best dev score of the course minus `dev`
    value: float | None = None  # the criterion's value at that step; None for a rule
    # Spearman's, of criterion and dev score; None for a rule, and if either is constant
    correlation: float | None = None


@dataclass(frozen=True)
class Criterion:
    """A criterion or a rule, judged over the runs of a study."""

    by: str  # its name
    regrets: Mapping[str, float]  # title of a line -> mean regret over the line's courses
    regret: float  # the mean regret over all courses
    worst: float  # the largest
    correlation: float | None  # the mean correlation over the courses that have one; None if none has
    # Spearman's correlation over courses of criterion and dev score, each at the kept step: whether the criterion could
    # choose between runs. None for a rule, and for fewer than three courses.
    between: float | None


def courses(run: Path) -> list[Course]:
    """The courses of a run folder: of each stage that was scored on dev pairs and has criteria."""
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
                row |= {key: value for key, value in record.items() if key not in NOT_CRITERIA}
            case "space":
                row |= {name: sign * record[name] for name, sign in SPACE.items()}
    result = []
    for steps in rows.values():
        complete = {step: row for step, row in steps.items() if "dev" in row and SELECTION_CRITERION in row}
        if len(complete) > 1:
            keys = next(iter(complete.values()))
            columns = {key: np.array([row[key] for row in complete.values()]) for key in keys}
            result.append(Course(np.array(list(complete), float), columns.pop("dev"), columns))
    return result


def choices(course: Course) -> dict[str, Choice]:
    """The step that each criterion and each rule keeps."""

    def keep(place: int, value: float | None = None, correlation: float | None = None) -> Choice:
        dev = float(course.dev[place])
        return Choice(int(course.steps[place]), dev, float(course.dev.max()) - dev, value, correlation)

    first, last = course.steps[[0, -1]]
    targets = {rule: first + share * (last - first) for rule, share in RULES.items()}
    by_rule = {rule: keep(int(np.abs(course.steps - step).argmin())) for rule, step in targets.items()}
    by_criterion = {
        name: keep(int(values.argmax()), float(values.max()), _spearman(course.dev, values) if np.ptp(values) else None)
        for name, values in course.criteria.items()
    }
    return by_criterion | by_rule


def judge(lines: Mapping[str, Sequence[Course]]) -> list[Criterion]:
    """Judges each criterion and rule over the courses of a study's lines, by title; the least regret comes first."""
    kept = {title: [choices(course) for course in of_line] for title, of_line in lines.items() if of_line}
    everywhere = [choice for of_line in kept.values() for choice in of_line]
    judged = []
    for name in dict.fromkeys(name for choice in everywhere for name in choice):  # the same in all runs of a study
        by_title = {title: fmean(choice[name].regret for choice in of_line) for title, of_line in kept.items()}
        chosen = [choice[name] for choice in everywhere]
        regrets = [choice.regret for choice in chosen]
        within = [choice.correlation for choice in chosen if choice.correlation is not None]
        between = None
        if len(chosen) > 2 and name not in RULES:
            dev, values = zip(*((choice.dev, choice.value) for choice in chosen), strict=True)
            between = _spearman(np.array(dev), np.array(values))
        mean_within = fmean(within) if within else None
        judged.append(Criterion(name, by_title, fmean(regrets), max(regrets), mean_within, between))
    return sorted(judged, key=lambda criterion: criterion.regret)


def _spearman(dev: Floats, values: Floats) -> float | None:
    """Spearman's correlation of two arrays [N]; None if the dev scores are constant."""
    both = correlations(dev, values)
    return both and both[0]
