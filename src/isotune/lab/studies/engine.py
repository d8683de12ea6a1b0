"""The runs of a study: which there are, which are yet to be made, and what they found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.console import Console

from isotune.encoder.encoder import Encoder
from isotune.errors import InputError
from isotune.evaluation import Evaluation, SentenceEncoder, STSTask
from isotune.lab.analyses import analyse
from isotune.lab.studies.budget import Budget
from isotune.lab.studies.comparison import Comparison, compare
from isotune.lab.studies.content import look_again, run_key
from isotune.lab.studies.plan import Run, expand
from isotune.lab.studies.processes import Processes
from isotune.lab.studies.selection import Course, Criterion, courses, judge
from isotune.lab.studies.statistics import Floats
from isotune.lab.studies.study import COSINE, START, Study
from isotune.lab.studies.table import Made, lines
from isotune.lab.studies.words import in_words, printed
from isotune.lab.studies.worker import COSINES, RESULT, Job, is_done, load_model, read_tasks
from isotune.training.interrupt import StopSignal

QUICK_TASKS = ("stsb-open",)  # what the training itself evaluates; the study's tasks come after it


class Engine:
    """The runs of a study, in the folder that keeps them.

    Attributes:
        runs: those that are lines of the table.
        keys: of these and of those that they start from; none where a model isn't there.
        problems: why a run failed.
    """

    def __init__(self, study: Study, folder: Path, model: str, console: Console) -> None:
        self.study, self.folder, self.console = study, folder, console
        self.runs = expand(study, model or None)
        look_again()  # an earlier study of this process may have been of other content
        read_tasks.cache_clear()
        self.tasks = read_tasks(study.tasks)  # now, so that a wrong name costs nothing
        self.keys: dict[Run, str] = {}
        self.problems: dict[Run, str] = {}
        for run in [*(run.before for run in self.runs if run.before), *self.runs]:
            try:
                self.keys[run] = run_key(run, study.tasks)
            except InputError as error:
                self.problems[run] = str(error)
        wanted = {run.start for run in self.runs}
        if study.analyses:
            wanted |= {run for run in self.runs if run.recipe and run.seed == study.seeds[0]}
        self.kept = {self.keys[run] for run in wanted if run in self.keys}

    def make(self, workers: Processes, stop: StopSignal, budget: Budget | None = None) -> None:
        """Makes what isn't there: first what others start from, then those.

        Of each arm the first cell with the first seed comes first. With a budget so does all that these start from:
        what there is when it is spent should be whole lines.
        """
        there = {key for key in self.keys.values() if self._is_done(key)}
        total = len(set(self.keys.values()))
        self._say(f"{self.study.title}: {total} runs, of which {len(there)} are there already")
        turns = self._turns()
        whole = budget is not None and any(run.start for run in self.keys)
        rounds: dict[tuple[int, ...], list[Run]] = {}
        for run in sorted(self.keys, key=lambda run: turns[run]):
            rounds.setdefault((*(turns[run] if whole else ()), _depth(run)), []).append(run)
        for _, members in sorted(rounds.items()):
            jobs: dict[str, Job] = {}
            begun: dict[Path, Run] = {}
            for run in members:
                key = self.keys[run]
                if self._is_done(key):
                    continue
                if run.start in self.problems:
                    self.problems[run] = f"{run.start.title} failed, from which it starts"
                elif run.start is None or self._is_done(self.keys[run.start]):
                    jobs[key] = self._job(run, key)
                    begun[jobs[key].folder] = run
                elif budget:
                    budget.left_out.append(run)

            def ended(job: Job, problem: str, begun: Mapping[Path, Run] = begun) -> None:
                if budget and not problem:  # how soon one fails says nothing of how long others take
                    budget.ended(begun[job.folder])
                self._ended(job, problem)

            def admit(job: Job, begun: Mapping[Path, Run] = begun) -> bool:
                return budget is None or budget.admits(begun[job.folder])

            workers.make(list(jobs.values()), stop, ended, admit)
        if budget and budget.left_out:
            self._say(
                f"left out, for they would be over after the {budget.minutes:g} minutes: "
                + "; ".join(run.title for run in budget.left_out)
            )

    def _turns(self) -> dict[Run, tuple[int, int]]:
        """The place of each run's seed among the study's, and of its cell among the arm's."""
        seen: dict[tuple[str, int | None], int] = {}
        turns = dict.fromkeys(self.keys, (0, 0))
        for run in self.runs:
            place = seen[run.arm, run.seed] = seen.get((run.arm, run.seed), -1) + 1
            turns[run] = (0 if run.seed is None else self.study.seeds.index(run.seed), place)
        return turns

    def _ended(self, job: Job, problem: str) -> None:
        """Notes what came of a run."""
        same = [run for run, key in self.keys.items() if key == job.folder.name]
        if problem:
            self.problems |= dict.fromkeys(same, problem)
        values = {} if problem else self._values(same[-1])
        scores = [score for score in self.study.scores if score in values]
        found = [f"{score} {printed(self.study, score, values[score])}" for score in scores]
        self._say(f"{same[-1].title}: {f'failed: {problem}' if problem else ', '.join(found)}")

    def _job(self, run: Run, key: str) -> Job:
        recipe = None
        if run.recipe:
            start = {"model": str(self.folder / self.keys[run.start] / "encoder") if run.start else run.model}
            recipe = {**run.recipe.table(), **({} if run.recipe.scratch else start), "tasks": QUICK_TASKS}
        return Job(
            folder=self.folder / key,
            recipe=recipe,
            model=run.model,
            encoder=run.encoder,
            tasks=self.study.tasks,
            keep=key in self.kept,
        )

    def _is_done(self, key: str) -> bool:
        return is_done(self.folder / key, key in self.kept)

    def made(self, run: Run) -> Made:
        """A run as the results have it."""
        key = self.keys.get(run, "")
        return Made(
            arm=run.arm,
            model=run.model,
            seed=run.seed,
            cell=dict(run.cell),
            run=key,
            problem=self.problems.get(run, ""),
            values=self._values(run) if key and self._is_done(key) else {},
        )

    def _values(self, run: Run) -> dict[str, float]:
        """Every number of a run that is there."""
        study, key = self.study, self.keys[run]
        found = json.loads((self.folder / key / RESULT).read_text("utf-8"))
        evaluation = Evaluation.model_validate(found["evaluation"])
        values: dict[str, float] = found["scores"] | evaluation.scores(study.aggregation, study.metric)
        for name, members in study.averages.items():
            if values.keys() >= set(members):
                values[name] = fmean(values[member] for member in members)
        for score in study.scores:
            kind, _, rest = score.partition(":")
            if kind == COSINE and rest.isdecimal():
                cosines = next(iter(self._cosines(key).values()), np.zeros(0))
                values |= {score: float(cosines[int(rest)])} if int(rest) < len(cosines) else {}
            if score.startswith(START) and run.before in self.keys and self._is_done(self.keys[run.before]):
                start = self._values(run.before)
                values |= {score: start[rest]} if rest in start else {}
        return values

    def _cosines(self, key: str) -> dict[str, Floats]:
        with np.load(self.folder / key / COSINES) as arrays:
            return dict(arrays)

    def compare(self, made: Sequence[Made]) -> list[Comparison]:
        """What there is to say of differences between the lines of runs that were made."""
        keys = {(in_words(run.arm, run.cell), run.seed): key for run, key in self.keys.items()}
        found = lines(self.study, made)
        tasks = [task for task in self.tasks if isinstance(task, STSTask)]
        return compare(self.study, found, tasks, lambda line, seed: self._cosines(keys[line.title, seed]))

    def select(self) -> list[Criterion]:
        """How well each line's steps would have been chosen without labels."""
        found: dict[str, list[Course]] = {}
        for run in self.runs:
            if run.recipe and (key := self.keys.get(run)) and self._is_done(key):
                found.setdefault(in_words(run.arm, run.cell), []).extend(courses(self.folder / key))
        return judge(found)

    def analyse(self, folder: Path) -> tuple[str, ...]:
        """Makes the analyses of the first seed's encoders; says which."""
        encoders = _Encoders(
            {
                in_words(run.arm, run.cell): partial(self._encoder, run, key)
                for run, key in self.keys.items()
                if run in self.runs and run.seed in (None, self.study.seeds[0]) and self._is_done(key)
            }
        )
        made = []
        for name in self.study.analyses if encoders else ():
            try:
                analyse(name, encoders, self.study.analysed).write(folder)
                made.append(name)
            except InputError as error:
                self._say(f"analysis {name} failed: {error}")
        return tuple(made)

    def _encoder(self, run: Run, key: str) -> SentenceEncoder:
        if run.recipe:
            return Encoder.load(self.folder / key / "encoder")
        return load_model(run.model, run.encoder)

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False)


class _Encoders(Mapping[str, SentenceEncoder]):
    """Encoders by name, each loaded when it is asked for and not held: a study can have more than fit in memory."""

    def __init__(self, load: Mapping[str, Callable[[], SentenceEncoder]]) -> None:
        self._load = load

    def __getitem__(self, name: str) -> SentenceEncoder:
        return self._load[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._load)

    def __len__(self) -> int:
        return len(self._load)


def _depth(run: Run) -> int:
    return 1 + _depth(run.start) if run.start else 0
