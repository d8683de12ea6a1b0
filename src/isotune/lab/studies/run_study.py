"""A study from its file to its page: what `isotune study` does.

Each run is made once, in RUNS/KEY. A study that was stopped and is started again, or another study
that shares RUNS, uses the runs that are there. Then the study's folder is written anew, also if
runs failed: study.json, the figures, and the page last.
"""

from __future__ import annotations

import os
import platform
import time
from collections import UserDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter
from itertools import chain
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from isotune.console import PlainConsole
from isotune.data import DATASETS, Sentence, is_stand_in, read
from isotune.encoder import Encoder
from isotune.errors import InputError, as_input_error, counted
from isotune.evaluation import DevTask, Floats, Format, versions
from isotune.files import make_folder
from isotune.kernels import gpu_name
from isotune.lab.analyses import analyse, read_pairs
from isotune.lab.studies import read_study
from isotune.lab.studies.comparison import Comparison, compare
from isotune.lab.studies.job import Job, RayRuns, read_tasks, try_to_make
from isotune.lab.studies.lines import Line, MadeRun, table_lines
from isotune.lab.studies.page import STUDY, Results, write_page
from isotune.lab.studies.plan import PlannedRun, changed_study, departures, plan_runs
from isotune.lab.studies.run_key import Keys
from isotune.lab.studies.scores import check_scores, run_scores
from isotune.lab.studies.study import SIZES, Study
from isotune.lab.studies.table import score_table
from isotune.lab.studies.wording import line_title, measured_digits

QUICK_TASKS = ("stsb-open",)
"""The tasks of a training's own report. The study's tasks are evaluated after the training."""


@dataclass(frozen=True)
class StudyOutcome:
    """How a study ended."""

    page: Path
    """The path of its page."""

    failed: int
    """The number of runs that failed."""

    def table(self, form: Format) -> str:
        """The study's table in a format for papers."""
        return score_table(Results.read(self.page.with_name(STUDY))).text(form)


# These are the choices of `isotune study` and `isotune reproduce`, by the names of their flags.
def run_study(  # noqa: PLR0913
    name: str | Path,
    out: str | Path,
    *,
    runs: str | Path | None = None,
    model: str = "",
    seeds: Sequence[int] = (),
    options: Mapping[str, Any] | None = None,
    arms: str | Path | Sequence[str | Path] = (),
    updates: int | None = None,
    stand_ins: bool = False,
    keep_encoders: bool = False,
    budget: float | None = None,
    on_ray: bool = False,
    threads: int | None = None,
    quiet: bool = False,
) -> StudyOutcome:
    """Makes the runs of a study that are not there yet, and its page.

    The page says what is not as in the study's file.

    Args:
        name: a study of the package, or a TOML file.
        out: the study's folder.
        runs: the folder of the runs, which studies can share; OUT/runs if None.
        model: replaces every model of the study.
        seeds: replace the study's.
        options: replace the options of the recipes and of the study's arms.
        arms: are added to the study's: TOML files with [[arms]], or "NAME=RECIPE".
        updates: the updates that every training makes in all, in place of its recipe's length.
        stand_ins: use data that stand in for published data where these are only on the hub.
        keep_encoders: keep the encoder of every trained run, in RUNS/KEY/encoder. A run whose
            encoder was not kept is then trained again.
        budget: the hours after which no run begins. The page then shows what is made. If None, all
            runs are made.
        on_ray: make runs at the same time, on the Ray cluster at RAY_ADDRESS or on Ray of this
            machine: a run on each GPU, or without GPUs on each `threads` processors. Else this
            process makes one run after another.
        threads: of each run on Ray; 1 if None.
        quiet: print nothing on standard error.

    Raises:
        InputError: the study, a name in it, an option, a folder or a number is invalid. Errors in
            a single run are in the table.
    """
    _check_threads(threads, on_ray=on_ray)
    if isinstance(arms, str | Path):
        arms = [arms]
    deadline = _deadline(budget)
    folder = Path(runs or Path(out, "runs"))
    # This refuses wrong names, before anything is written.
    console = PlainConsole(stderr=True, quiet=quiet, soft_wrap=True, force_jupyter=False)
    study = as_asked(
        name, model, seeds, options or {}, arms=arms, updates=updates, stand_ins=stand_ins
    )
    all_runs = StudyRuns(study, folder, model, console, keep_encoders=keep_encoders)
    _make_folders([Path(out), folder])
    with RayRuns(threads or 1) if on_ray else nullcontext(RunsHere()) as workers:
        all_runs.make(workers, deadline)
    all_runs.results(str(name), Path(out), _facts(workers)).write(Path(out))
    return StudyOutcome(write_page(Path(out)), len(all_runs.problems))


def _check_threads(threads: int | None, *, on_ray: bool) -> None:
    if threads is not None and (threads < 1 or not on_ray):
        raise InputError(
            f"threads {threads}: 1 or more, for runs on Ray; OMP_NUM_THREADS is for those of this "
            "process"
        )


def _deadline(budget: float | None) -> float:
    """The time of `time.monotonic` at which so many hours are over."""
    if budget is None:
        return inf
    if not budget >= 0:
        raise InputError(f"budget {budget:g}: hours, 0 or more")
    return time.monotonic() + 3600 * budget


def as_asked(
    name: str | Path,
    model: str,
    seeds: Sequence[int],
    options: Mapping[str, Any],
    *,
    arms: Sequence[str | Path],
    updates: int | None,
    stand_ins: bool,
) -> Study:
    """The study of this name with the changes that are asked for, which its note tells."""
    published = read_study(name, arms)
    study = changed_study(published, seeds, options, with_stand_ins=stand_ins, updates=updates)
    departed = departures(study, published, model, options)
    if not departed:
        return study
    if study.note:
        departed.append(study.note)
    return study.model_copy(update={"note": " ".join(departed), "cost": ""})


def _make_folders(folders: Iterable[Path]) -> None:
    for folder in folders:
        with as_input_error(OSError, f"{folder}: it can't be made", "; name another folder"):
            make_folder(folder)


def _facts(workers: RayRuns | RunsHere) -> dict[str, str | int]:
    """The versions, the machine and the time of a study's results."""
    facts: dict[str, str | int] = {**versions(), "python": platform.python_version()}
    facts["platform"] = platform.platform()
    facts["gpu"] = gpu_name()
    facts["cores"] = os.cpu_count() or 1
    facts["processes"] = workers.count
    facts["threads of each"] = workers.threads
    facts["made"] = time.strftime("%Y-%m-%d %H:%M")
    return facts


class RunsHere:
    """Makes runs in this process, one after another. What it offers is what `RayRuns` offers."""

    count = 1

    def __init__(self) -> None:
        self.threads = torch.get_num_threads()
        self.running: list[Job] = []

    def start(self, job: Job) -> None:
        """Takes a run, which `wait` makes."""
        self.running.append(job)

    def wait(self) -> tuple[Job, str]:
        """Makes the run that was taken; gives its job, and the reason of its failure or ""."""
        job = self.running.pop()
        return job, try_to_make(job)


def _sizes(name: str) -> dict[str, float]:
    """The sizes of a dataset by the names of `SIZES`; 0 for a split that it lacks."""
    dataset = DATASETS[name]
    sizes: dict[str, float] = dict.fromkeys(SIZES, 0)
    for split in SIZES:
        if split in dataset.splits and dataset.splits[split].gold_count:
            rows = read(f"{name}:{split}", dataset.row_types[0])
            sizes[split] = len(list(rows))
    sizes["texts"] = len(list(read(name, Sentence)))
    return sizes


class StudyRuns:
    """The runs of a study, each in a folder named by its key."""

    def __init__(
        self,
        study: Study,
        folder: Path,
        model: str,
        console: PlainConsole,
        *,
        keep_encoders: bool = False,
    ) -> None:
        """Plans the runs and checks what they read and show; makes nothing yet."""
        self.study = study
        self.model = model
        self.keep_encoders = keep_encoders
        self._say = console.print
        # The runs in the lines of the table.
        self.planned = plan_runs(study, model)
        # Names are checked and the data of tasks are read now, so that a wrong name costs no run.
        self.tasks = read_tasks(study.tasks)
        check_scores(study, self.planned, self.tasks)
        for analysis in study.analyses:
            read_pairs(analysis, study.analysed)
        baselines = [run.baseline for run in self.planned if run.baseline]
        keys = Keys()
        by_run, problems = keys.runs([*baselines, *self.planned])
        # Why runs failed. At first these are the runs whose model is not on this machine.
        self.problems = problems
        # The jobs of the other runs and of their baselines.
        self.jobs = self._jobs({run: folder / key for run, key in by_run.items()}, keys)

    def _jobs(self, folders: Mapping[PlannedRun, Path], keys: Keys) -> dict[PlannedRun, Job]:
        kept_folders = {folders[run] for run in self._needed_later() if run in folders}
        jobs = {}
        for run, folder in folders.items():
            start = run.model
            if run.start:
                start = str(folders[run.start] / "encoder")
            recipe = None
            if run.recipe:
                recipe = {**run.recipe.table(), "model": start, "tasks": QUICK_TASKS}
            jobs[run] = Job(
                folder=folder,
                recipe=recipe,
                model=run.model,
                encoder=run.encoder,
                tasks=keys.scores(
                    self.study.tasks, self.study.pairs, run.classifier_seed, self.study.timed
                ),
                pairs=self.study.pairs,
                classifier_seed=run.classifier_seed,
                keep=folder in kept_folders,
            )
        return jobs

    def _needed_later(self) -> set[PlannedRun]:
        """The runs whose encoders other runs, analyses or the person need."""
        if self.keep_encoders:
            return {run for run in self.planned if run.recipe}
        needed = {run.start for run in self.planned if run.start}
        if self.study.analyses:
            for run in self.planned:
                if run.recipe and run.seed == self.study.seeds[0]:
                    needed.add(run)
        return needed

    def left(self) -> dict[Path, PlannedRun]:
        """The runs that are not done, by their folders, those of the first seed and cell first.

        The first run of each folder stands for all runs with the same key.
        """
        left: dict[Path, PlannedRun] = {}
        for run in sorted(self.jobs, key=attrgetter("turn")):
            job = self.jobs[run]
            if job.folder not in left and not job.is_done:
                left[job.folder] = run
        return left

    def make(self, workers: RayRuns | RunsHere, deadline: float = inf) -> None:
        """Makes the runs that are not done, those of the first seed and cell first.

        None begins after the deadline, a time of `time.monotonic`.
        """
        waiting = self.left()
        count = len({job.folder for job in self.jobs.values()})
        done = count - len(waiting)
        self._say(f"{self.study.title}: {counted(count, 'run')}, {done} of them already done")
        for folder, run in waiting.items():
            if self.jobs[run].is_damaged:
                self._say(f"{folder}: a file in it is damaged; the run is made again")
        self._make_in_order(waiting, workers, deadline)

    def _make_in_order(
        self, waiting: Mapping[Path, PlannedRun], workers: RayRuns | RunsHere, deadline: float
    ) -> None:
        """Makes these runs, by their folders. Each comes after the run that it starts from."""
        sorter: TopologicalSorter[Path] = TopologicalSorter()
        for folder, run in waiting.items():
            sorter.add(folder)
            if run.start and self.jobs[run.start].folder in waiting:
                sorter.add(folder, self.jobs[run.start].folder)
        sorter.prepare()
        ready: set[Path] = set()
        while sorter.is_active():
            ready.update(sorter.get_ready())
            in_order = [folder for folder in waiting if folder in ready]
            failed = self._first_behind_a_failed_run(in_order, waiting)
            is_late = time.monotonic() >= deadline
            if is_late and not workers.running:
                self._say_what_is_left(waiting)
                return
            if failed:
                folder, problem = failed
                ready.remove(folder)
            elif in_order and not is_late and len(workers.running) < workers.count:
                workers.start(self.jobs[waiting[in_order[0]]])
                ready.remove(in_order[0])
                continue
            else:
                job, problem = workers.wait()
                folder = job.folder
            self._note_end(waiting[folder], problem)
            sorter.done(folder)

    def _say_what_is_left(self, waiting: Mapping[Path, PlannedRun]) -> None:
        """Says how many of these runs were not made in the time."""
        left = [run for run in waiting.values() if not self._is_done(run)]
        self._say(
            f"the budget is used: {counted(len(left), 'run')} of {self.study.title} left; the same "
            "command goes on"
        )

    def _first_behind_a_failed_run(
        self, folders: Sequence[Path], waiting: Mapping[Path, PlannedRun]
    ) -> tuple[Path, str] | None:
        """The first of these runs whose start has failed, with the problem that it has by that."""
        for folder in folders:
            start = waiting[folder].start
            if start in self.problems:
                return folder, f"{start.title} failed, from which it starts"
        return None

    def _note_end(self, run: PlannedRun, problem: str) -> None:
        """Says how a run ended, and notes the problem of all runs with its key if it has one."""
        job = self.jobs[run]
        if not problem and not job.is_done:
            problem = "its result is not there"
        if problem:
            for same, other in self.jobs.items():
                if other.folder == job.folder:
                    self.problems[same] = problem
            self._say(f"{run.title}: failed: {problem}")
            return
        values = self._values(run)
        texts = []
        for score in self.study.scores:
            if score in values:
                texts.append(f"{score} {measured_digits(self.study, score, values[score])}")
        self._say(f"{run.title}: {', '.join(texts) or 'made'}")

    def made(self) -> tuple[MadeRun, ...]:
        """The runs in the lines of the table, with the scores of those that are done."""
        made = []
        for run in self.planned:
            made.append(
                MadeRun(
                    arm=run.arm,
                    model=run.model,
                    seed=run.seed,
                    cell=dict(run.cell),
                    run=self.jobs[run].folder.name if run in self.jobs else "",
                    problem=self.problems.get(run, ""),
                    is_made=run in self.problems or self._is_done(run),
                    values=self._values(run),
                )
            )
        return tuple(made)

    def _values(self, run: PlannedRun | None) -> dict[str, float]:
        """The scores of a run; none if it is not done."""
        if run is None or not self._is_done(run):
            return {}
        return run_scores(self.study, self.jobs[run], self._values(run.baseline))

    def _is_done(self, run: PlannedRun) -> bool:
        return run in self.jobs and self.jobs[run].is_done

    def results(self, name: str, out: Path, facts: Mapping[str, str | int]) -> Results:
        """What the study found, under its name. The analyses are written into its folder `out`."""
        made = self.made()
        sources = dict.fromkeys(chain(*(run.inputs.data for run in self.planned)))
        return Results(
            name=name,
            study=self.study,
            model=self.model,
            stand_ins=tuple(filter(is_stand_in, sources)),
            runs=made,
            statistics={dataset: _sizes(dataset) for dataset in self.study.statistics},
            comparisons=self.compare(made),
            analyses=self.analyse(out / "analyses"),
            facts=dict(facts),
        )

    def compare(self, made: Sequence[MadeRun]) -> tuple[Comparison, ...]:
        """The comparisons between the lines of runs that were made."""
        jobs = {}
        for run, job in self.jobs.items():
            jobs[line_title(run.arm, run.cell), run.seed] = job

        def values(line: Line, seed: int | None) -> Mapping[str, Floats]:
            return jobs[line.title, seed].values()

        tasks = [task for task in self.tasks if isinstance(task, DevTask)]
        return compare(self.study, table_lines(self.study, made), tasks, values)

    def analyse(self, folder: Path) -> tuple[str, ...]:
        """Writes the study's analyses of the first seed's encoders; returns the names of those.

        An analysis that can't be made is left out, and one line says why.
        """
        encoders = self._encoders()
        if not encoders:
            return ()
        names = []
        for name in self.study.analyses:
            try:
                analyse(name, encoders, self.study.analysed).write(folder)
                names.append(name)
            except InputError as error:
                self._say(f"analysis {name} failed: {error}")
        return tuple(names)

    def _encoders(self) -> _LazyEncoders:
        """The encoders of the runs of the first seed that are done, and the untrained ones."""
        encoders = _LazyEncoders()
        for run in self.planned:
            if not self._is_done(run) or run.seed not in (None, self.study.seeds[0]):
                continue
            load = partial(Encoder.load, run.model, **run.encoder.model_dump())
            if run.recipe:
                load = partial(Encoder.load, self.jobs[run].folder / "encoder")
            encoders[line_title(run.arm, run.cell)] = load
        return encoders


class _LazyEncoders(UserDict[str, Any]):
    """Encoders by name. Each is loaded at every access and not kept.

    All of a study's encoders may not fit in memory.
    """

    def __getitem__(self, name: str) -> Encoder:
        return self.data[name]()
