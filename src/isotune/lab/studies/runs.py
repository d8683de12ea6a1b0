"""All runs of a study: which are done, which are still to be made, and their scores."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console

from isotune.data.datasets import is_stand_in
from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation import Evaluation, SentenceEncoder, STSTask
from isotune.lab.analyses import analyse
from isotune.lab.studies.comparison import Comparison, compare
from isotune.lab.studies.estimate import Budget
from isotune.lab.studies.job import (
    COSINES,
    PAIRS,
    Job,
    is_done,
    load_untrained,
    read_arrays,
    read_result,
    read_tasks,
)
from isotune.lab.studies.lines import MadeRun, table_lines
from isotune.lab.studies.plan import PlannedRun, plan_runs
from isotune.lab.studies.processes import Processes
from isotune.lab.studies.run_key import forget_files, run_key
from isotune.lab.studies.study import COSINE, PREDICTED, START, Study
from isotune.lab.studies.wording import line_title, measured_digits
from isotune.training.interrupt import StopSignal
from isotune.training.predictions import PREDICTIONS

QUICK_TASKS = ("stsb-open",)  # for the training's own report; the study's tasks are evaluated after it


class StudyRuns:
    """The runs of a study, each in a folder named by its key.

    Attributes:
        planned: the runs in the lines of the table.
        keys: the keys of these runs and of their baselines; a run whose model is not on this machine has none.
        problems: the reason why a run failed.
    """

    def __init__(self, study: Study, folder: Path, model: str, console: Console) -> None:
        self.study, self.folder, self.console = study, folder, console
        self.planned = plan_runs(study, model or None)
        forget_files()  # they may have changed since an earlier study of this process
        read_tasks.cache_clear()
        self.tasks = read_tasks(study.tasks)  # now, so that a wrong name costs no run
        self.keys: dict[PlannedRun, str] = {}
        self.problems: dict[PlannedRun, str] = {}
        for run in [*(run.baseline for run in self.planned if run.baseline), *self.planned]:
            try:
                self.keys[run] = run_key(run, study.tasks, study.pairs)
            except InputError as error:
                self.problems[run] = str(error)
        needed = {run.start for run in self.planned}
        if study.analyses:
            needed |= {run for run in self.planned if run.recipe and run.seed == study.seeds[0]}
        self._kept = {self.keys[run] for run in needed if run in self.keys}  # whose encoders are kept

    def make(self, processes: Processes, stop: StopSignal, budget: Budget | None = None) -> None:
        """Makes the runs that are not done, first the first seed's in the first cell of each arm.

        Without a budget, all runs that others start from are made before the others, so that as many as possible are
        made side by side. With a budget, each run comes right after the runs that it starts from, so that whole lines
        are complete when the time is over.
        """
        done = {key: self._is_done(run) for run, key in self.keys.items()}
        self._say(f"{self.study.title}: {len(done)} runs, {sum(done.values())} of them already done")
        for runs in self._rounds(by_line=budget is not None and any(run.start for run in self.keys)):
            ready = {self._folder(run): run for run in runs if self._is_ready(run, budget)}

            def admit(job: Job, ready: Mapping[Path, PlannedRun] = ready) -> bool:
                return budget is None or budget.admit(ready[job.folder])

            for job, problem in processes.make([self._job(run) for run in ready.values()], stop, admit):
                if budget and not problem:  # a run that fails early says nothing of how long the others take
                    budget.finished(ready[job.folder])
                self._finished(ready[job.folder], problem)
        if budget and budget.left_out:
            titles = "; ".join(run.title for run in budget.left_out)
            self._say(f"left out, because they would not end within {budget.minutes:g} minutes: {titles}")

    def _rounds(self, by_line: bool) -> list[list[PlannedRun]]:
        """The runs in the order in which they are made; a round begins when the one before has ended."""
        counts: dict[tuple[str, int | None], int] = {}
        turns = dict.fromkeys(self.keys, (0, 0))  # the place of a run's seed in the study, and of its cell in the arm
        for run in self.planned:
            cell = counts[run.arm, run.seed] = counts.get((run.arm, run.seed), -1) + 1
            turns[run] = (0 if run.seed is None else self.study.seeds.index(run.seed), cell)
        rounds: dict[tuple[int, ...], list[PlannedRun]] = {}
        for run in sorted(self.keys, key=turns.__getitem__):
            rounds.setdefault((*(turns[run] if by_line else ()), run.depth), []).append(run)
        return [rounds[place] for place in sorted(rounds)]

    def _is_ready(self, run: PlannedRun, budget: Budget | None) -> bool:
        """Whether a run can be made now. If the run that it starts from is not there, notes why."""
        if self._is_done(run):
            return False
        if run.start is None or self._is_done(run.start):
            return True
        if run.start in self.problems:
            self.problems[run] = f"{run.start.title} failed, from which it starts"
        elif budget:
            budget.left_out.append(run)
        return False

    def _finished(self, run: PlannedRun, problem: str) -> None:
        """Notes a failure for all runs of the same key, and says how the run ended."""
        if problem:
            self.problems |= {same: problem for same, key in self.keys.items() if key == self.keys[run]}
            self._say(f"{run.title}: failed: {problem}")
            return
        values = self._values(run)
        scores = [score for score in self.study.scores if score in values]
        texts = [f"{score} {measured_digits(self.study, score, values[score])}" for score in scores]
        self._say(f"{run.title}: {', '.join(texts) or 'made'}")

    def _job(self, run: PlannedRun) -> Job:
        recipe = None
        if run.recipe:
            model = str(self._folder(run.start) / "encoder") if run.start else run.model
            recipe = {**run.recipe.table(), "model": model, "tasks": QUICK_TASKS}
        return Job(
            folder=self._folder(run),
            recipe=recipe,
            model=run.model,
            encoder=run.encoder,
            tasks=self.study.tasks,
            pairs=self.study.pairs,
            classifier_seed=run.classifier_seed,
            keep=self.keys[run] in self._kept,
        )

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """The sources of the study's runs that stand in for published data."""
        stages = [(run.recipe, stage) for run in self.planned if run.recipe for stage in run.recipe.stages]
        sources = [source for recipe, stage in stages for source in recipe.inputs(stage).data]
        return tuple(dict.fromkeys(filter(is_stand_in, sources)))

    def _folder(self, run: PlannedRun) -> Path:
        return self.folder / self.keys[run]

    def _is_done(self, run: PlannedRun) -> bool:
        return run in self.keys and is_done(self._folder(run), self.keys[run] in self._kept)

    def made(self) -> tuple[MadeRun, ...]:
        """The runs in the lines of the table, with the scores of those that are done."""
        return tuple(
            MadeRun(
                arm=run.arm,
                model=run.model,
                seed=run.seed,
                cell=dict(run.cell),
                run=self.keys.get(run, ""),
                problem=self.problems.get(run, ""),
                values=self._values(run) if self._is_done(run) else {},
            )
            for run in self.planned
        )

    def _values(self, run: PlannedRun) -> dict[str, float]:
        """Every score of a run that is done."""
        study, folder = self.study, self._folder(run)
        result = read_result(folder)
        evaluation = Evaluation.model_validate(result["evaluation"])
        values: dict[str, float] = result["scores"] | evaluation.scores(study.aggregation, study.metric)
        for name, members in study.averages.items():
            if values.keys() >= set(members):
                values[name] = fmean(values[member] for member in members)
        for score in study.scores:
            kind, _, rest = score.partition(":")
            name, _, row = rest.partition(":")
            if kind == COSINE and rest.isdecimal():
                cosines = read_arrays(folder / COSINES)
                of_pairs = cosines.get(PAIRS, next(iter(cosines.values()), np.zeros(0)))
                values |= {score: float(of_pairs[int(rest)])} if int(rest) < len(of_pairs) else {}
            if kind == PREDICTED and row.isdecimal() and (folder / PREDICTIONS).exists():
                predicted = read_arrays(folder / PREDICTIONS).get(f"dev:{name}".rstrip(":"), np.zeros(0))
                values |= {score: float(predicted[int(row)])} if int(row) < len(predicted) else {}
            if score.startswith(START) and run.baseline and self._is_done(run.baseline):
                baseline = self._values(run.baseline)
                values |= {score: baseline[rest]} if rest in baseline else {}
        return values

    def compare(self, made: Sequence[MadeRun]) -> tuple[Comparison, ...]:
        """The comparisons between the lines of runs that were made."""
        keys = {(line_title(run.arm, run.cell), run.seed): key for run, key in self.keys.items()}
        tasks = [task for task in self.tasks if isinstance(task, STSTask)]
        lines = table_lines(self.study, made)
        return compare(
            self.study, lines, tasks, lambda line, seed: read_arrays(self.folder / keys[line.title, seed] / COSINES)
        )

    def analyse(self, folder: Path) -> tuple[str, ...]:
        """Writes the study's analyses of the first seed's encoders; returns the names of those that were made."""
        runs = [run for run in self.keys if run in self.planned and run.seed in (None, self.study.seeds[0])]
        done = {line_title(run.arm, run.cell): partial(self._encoder, run) for run in runs if self._is_done(run)}
        encoders = _LazyEncoders(done)
        made = []
        for name in self.study.analyses if encoders else ():
            try:
                analyse(name, encoders, self.study.analysed).write(folder)
                made.append(name)
            except InputError as error:
                self._say(f"analysis {name} failed: {error}")
        return tuple(made)

    def _encoder(self, run: PlannedRun) -> SentenceEncoder:
        return Encoder.load(self._folder(run) / "encoder") if run.recipe else load_untrained(run.model, run.encoder)

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False)


class _LazyEncoders(UserDict[str, Any]):
    """Encoders by name. Each is loaded at every access and not kept: all of a study's may not fit in memory."""

    def __getitem__(self, name: str) -> SentenceEncoder:
        encoder: SentenceEncoder = self.data[name]()
        return encoder
