"""The scores that the runs of a study have: which names there are, and the values of a run.

All names of a study's scores are checked before its first run is made: a wrong name would else show
after hours, as an empty column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import inf
from statistics import fmean
from typing import Any

import numpy as np

from isotune.errors import unknown
from isotune.evaluation import (
    GROUPS,
    DevTask,
    FunctionTask,
    STSTask,
    Task,
)
from isotune.files import read_arrays
from isotune.lab.studies.job import Job
from isotune.lab.studies.plan import PlannedRun
from isotune.lab.studies.study import (
    COSINE,
    ENCODING,
    PAIRS,
    PREDICTED,
    RUN_SCORES,
    SIZES,
    START,
    Study,
)
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
        names.whole.update(SIZES)
    if runs:
        names.whole.update(RUN_SCORES)
    names.add_tasks(tasks)
    for stage in chain(*(run.recipe.stages for run in runs if run.recipe)):
        names.add_parts(stage)
    for task in tasks:
        if task.texts():
            names.whole.add(f"{ENCODING}:{task.name}")
    for average, members in study.averages.items():
        for member in members:
            names.check(f"score in the average {average}", member)
        names.whole.add(average)
    names.add_cosines(study, tasks)
    for score in study.scores:
        names.check("score", score.removeprefix(START))


@dataclass
class _Names:
    """The names of the scores that some run of a study can have."""

    whole: set[str] = field(default_factory=set)
    """Names that are known as a whole."""

    beginnings: set[str] = field(default_factory=set)
    """The beginnings of names that only a plugin knows."""

    numbered: dict[str, float] = field(default_factory=dict)
    """What stands before a number, as in "cosine:7"; and the number of such numbers.

    It is infinity if it is not known.
    """

    def add_tasks(self, tasks: Sequence[Task]) -> None:
        """Adds the scores of tasks, and of the groups all of whose tasks are among them."""
        for task in tasks:
            self.whole.update(task.score_names)
            if isinstance(task, FunctionTask):
                self.beginnings.add(f"{task.name}-")
        evaluated = {task.name for task in tasks}
        for group, members in GROUPS.items():
            if evaluated.issuperset(members):
                self.whole.add(group)

    def add_parts(self, stage: Stage) -> None:
        """Adds the parts of the dev and the test score of a stage, and its predictions."""
        if not METHODS[stage.method].__module__.startswith("isotune."):
            self.beginnings.update(("dev:", "test:", f"{PREDICTED}:"))
            return
        metrics = getattr(stage.options, "metrics", ())
        if metrics:
            self.numbered[f"{PREDICTED}:"] = inf
        for metric in metrics:
            self.whole.add(f"test:{metric}")
            if len(metrics) > 1:
                self.whole.add(f"dev:{metric}")
        for option in type(stage.options).model_fields:
            rows = option.removesuffix("_dev")
            if rows != option:
                self.whole.update((f"dev:{rows}", f"test:{rows}"))
                self.numbered[f"{PREDICTED}:{rows}"] = inf

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
        name, number = _name_and_number(score)
        if number < self.numbered.get(name, 0):
            return
        raise unknown(kind, score, self._listed())

    def _listed(self) -> list[str]:
        """The names as an error lists them."""
        listed = [*self.whole, *(f"{beginning}NAME" for beginning in self.beginnings)]
        for name, count in self.numbered.items():
            last = "" if count == inf else f" from 0 to {count - 1}"
            listed.append(f"{name}:{NUMBER}{last}")
        return listed or ["none"]


def run_scores(study: Study, job: Job, baseline: Mapping[str, float]) -> dict[str, float]:
    """The values of the scores of a run that is made, by name.

    `baseline` has the scores of what the run started from.
    """
    values = job.training_scores()
    values.update(job.evaluation().scores(study.aggregation, study.metric))
    of_tasks = job.values()
    for score in study.timed:
        values[score] = float(of_tasks[score][0])
    rows = _values_of_rows(job)
    for score in chain(study.scores, *study.averages.values()):
        name, number = _name_and_number(score)
        if number < len(rows.get(name, ())):
            values[score] = float(rows[name][number])
    for name, members in study.averages.items():
        if values.keys() >= set(members):
            values[name] = fmean(values[member] for member in members)
    for score in study.scores:
        score_of_start = score.removeprefix(START)
        if score.startswith(START) and score_of_start in baseline:
            values[score] = baseline[score_of_start]
    return values


def _name_and_number(score: str) -> tuple[str, int]:
    """The parts of a score that chooses a row, such as ("cosine", 7); another has the name ""."""
    name, _, number = score.rpartition(":")
    if not number.isdecimal():
        return "", 0
    return name, int(number)


def _values_of_rows(job: Job) -> dict[str, Any]:
    """The arrays that a score with a number chooses from, by what stands before the number."""
    arrays = {}
    if (job.folder / PREDICTIONS).exists():
        for key, array in read_arrays(job.folder / PREDICTIONS).items():
            if key.startswith("dev"):
                rows = key.removeprefix("dev").removeprefix(":")
                arrays[f"{PREDICTED}:{rows}"] = array
    cosines = job.values()
    of_first_task = next(iter(cosines.values()), np.zeros(0))
    arrays[COSINE] = cosines.get(PAIRS, of_first_task)
    return arrays
