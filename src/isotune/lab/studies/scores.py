"""The scores that the runs of a study have: which names there are, and the values of a run.

All names of a study's scores are checked before its first run is made: a wrong name would else show
after hours, as an empty column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from isotune.errors import unknown
from isotune.evaluation import (
    GROUPS,
    MEASURES,
    DevTask,
    Evaluation,
    RetrievalTask,
    STSTask,
    Task,
    TransferTask,
    ranking_scores,
)
from isotune.files import read_arrays, read_json
from isotune.lab.studies.job import PAIRS, RESULT, VALUES
from isotune.lab.studies.plan import PlannedRun
from isotune.lab.studies.study import COSINE, PREDICTED, RUN_SCORES, SIZES, START, Study
from isotune.methods import METHODS
from isotune.recipes import Stage
from isotune.training import PREDICTIONS

NUMBER = "NUMBER"
"""What stands for a number where an error lists the names of scores."""


def check_scores(study: Study, runs: Sequence[PlannedRun], tasks: Sequence[Task]) -> None:
    """Checks the names of a study's scores, and of those that its averages are made of.

    Args:
        study: the study.
        runs: all of its runs.
        tasks: what its runs are evaluated on.

    Raises:
        InputError: no run of the study has a score of this name.
    """
    names = _Names()
    if study.statistics:
        names.whole.update(dict.fromkeys(SIZES))
    if runs:
        names.whole.update(dict.fromkeys(RUN_SCORES))
    names.add_tasks(tasks)
    for stage in chain(*(run.recipe.stages for run in runs if run.recipe)):
        names.add_parts(stage)
    for average, members in study.averages.items():
        for member in members:
            names.check(f"score in the average {average}", member)
        names.whole[average] = None
    names.add_cosines(study, tasks)
    for score in study.scores:
        names.check("score", score.removeprefix(START))


@dataclass
class _Names:
    """The names of the scores that some run of a study can have."""

    whole: dict[str, None] = field(default_factory=dict)
    """Names that are known as a whole, in order."""

    beginnings: dict[str, None] = field(default_factory=dict)
    """The beginnings of names that only a plugin knows."""

    numbered: dict[str, int | None] = field(default_factory=dict)
    """What stands before a number, as in "cosine:7"; and how many numbers there are, if known."""

    def add_tasks(self, tasks: Sequence[Task]) -> None:
        """Adds the scores of tasks, and of the groups all of whose tasks are among them."""
        for task in tasks:
            self._add_task(task)
        evaluated = {task.name for task in tasks}
        for group, members in GROUPS.items():
            if evaluated.issuperset(members):
                self.whole[group] = None

    def _add_task(self, task: Task) -> None:
        name = task.name
        if name == "geometry":
            self.whole.update(dict.fromkeys(MEASURES))
        elif name.startswith("geometry:"):
            self.whole.update((f"{name}-{measure}", None) for measure in MEASURES)
        elif isinstance(task, RetrievalTask):
            self.whole.update(dict.fromkeys(ranking_scores(name)))
        elif isinstance(task, STSTask):
            self.whole[name] = None
        elif isinstance(task, TransferTask):
            self.whole[name] = None
            if task.f1:
                self.whole[f"{name}-f1"] = None
            if task.macro_f1:
                self.whole[f"{name}-macro-f1"] = None
        else:
            self.whole[name] = None
            self.beginnings[f"{name}-"] = None

    def add_parts(self, stage: Stage) -> None:
        """Adds the parts of the dev and the test score of a stage, and its predictions."""
        if not METHODS[stage.method].__module__.startswith("isotune."):
            self.beginnings.update(dict.fromkeys(("dev:", "test:", f"{PREDICTED}:")))
            return
        metrics = getattr(stage.options, "metrics", ())
        if metrics:
            self.numbered[f"{PREDICTED}:"] = None
        for metric in metrics:
            self.whole[f"test:{metric}"] = None
            if len(metrics) > 1:
                self.whole[f"dev:{metric}"] = None
        for option in type(stage.options).model_fields:
            rows = option.removesuffix("_dev")
            if rows != option:
                self.whole[f"dev:{rows}"] = None
                self.whole[f"test:{rows}"] = None
                self.numbered[f"{PREDICTED}:{rows}"] = None

    def add_cosines(self, study: Study, tasks: Sequence[Task]) -> None:
        """Adds the cosines of the study's pairs, or else of its first task's."""
        if study.pairs:
            self.numbered[COSINE] = len(study.pairs)
            return
        first = next((task for task in tasks if isinstance(task, DevTask)), None)
        if isinstance(first, STSTask):
            self.numbered[COSINE] = len(first.pairs.scores)

    def check(self, kind: str, score: str) -> None:
        """Checks a name, of this kind in an error."""
        if score in self.whole or score.startswith(tuple(self.beginnings)):
            return
        name, _, number = score.rpartition(":")
        if number.isdecimal() and name in self.numbered:
            count = self.numbered[name]
            if count is None or int(number) < count:
                return
        raise unknown(kind, score, self._listed())

    def _listed(self) -> list[str]:
        """The names as an error lists them."""
        listed = [*self.whole, *(f"{beginning}NAME" for beginning in self.beginnings)]
        for name, count in self.numbered.items():
            if count is None:
                listed.append(f"{name}:{NUMBER}")
            else:
                listed.append(f"{name}:{NUMBER} from 0 to {count - 1}")
        return listed or ["none"]


def run_scores(study: Study, folder: Path, baseline: Mapping[str, float]) -> dict[str, float]:
    """The values of a run's scores by name, from the run's folder.

    `baseline` has the scores of what the run started from.
    """
    result = read_json(folder / RESULT)
    evaluation = Evaluation.model_validate(result["evaluation"])
    values: dict[str, float] = dict(result["scores"])
    values.update(evaluation.scores(study.aggregation, study.metric))
    for name, members in study.averages.items():
        if values.keys() >= set(members):
            values[name] = fmean(values[member] for member in members)
    rows = _values_of_rows(folder)
    for score in study.scores:
        name, _, number = score.rpartition(":")
        if name in rows and number.isdecimal() and int(number) < len(rows[name]):
            values[score] = float(rows[name][int(number)])
        score_of_start = score.removeprefix(START)
        if score.startswith(START) and score_of_start in baseline:
            values[score] = baseline[score_of_start]
    return values


def _values_of_rows(folder: Path) -> dict[str, Any]:
    """The arrays that a score with a number chooses from, by what stands before the number."""
    arrays = {}
    if (folder / PREDICTIONS).exists():
        for key, array in read_arrays(folder / PREDICTIONS).items():
            if key.startswith("dev"):
                rows = key.removeprefix("dev").removeprefix(":")
                arrays[f"{PREDICTED}:{rows}"] = array
    cosines = read_arrays(folder / VALUES)
    of_first_task = next(iter(cosines.values()), np.zeros(0))
    arrays[COSINE] = cosines.get(PAIRS, of_first_task)
    return arrays
