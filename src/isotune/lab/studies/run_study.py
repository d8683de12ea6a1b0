"""A study from its file to its page: what `isotune study` does.

Each run is made once, in RUNS/KEY. A study that was stopped and is started again, or another study that shares RUNS,
uses the runs that are there. Then the study's folder is written anew, also if runs failed: study.json, the figures, and
the page last.
"""

import os
import platform
import time
from collections import UserDict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from isotune.console import PlainConsole
from isotune.data import DATASETS, Sentence, is_stand_in, read
from isotune.encoder import Encoder
from isotune.errors import InputError, counted, telling
from isotune.evaluation import DevTask, Evaluation, load_tasks
from isotune.files import make_folder, read_arrays, read_json
from isotune.kernels import gpu_name
from isotune.lab.analyses import analyse
from isotune.lab.studies import read_study
from isotune.lab.studies.comparison import Comparison, compare
from isotune.lab.studies.job import PAIRS, RESULT, VALUES, Job, RayRuns, try_to_make
from isotune.lab.studies.lines import MadeRun, table_lines
from isotune.lab.studies.page import Results, write_page
from isotune.lab.studies.plan import PlannedRun, changed_study, departures, plan_runs
from isotune.lab.studies.run_key import run_keys
from isotune.lab.studies.study import COSINE, PREDICTED, SIZES, START, Study
from isotune.lab.studies.wording import line_title, measured_digits
from isotune.training import PREDICTIONS

QUICK_TASKS = (
    "stsb-open",
)  # for the training's own report; the study's tasks are evaluated after it


@dataclass(frozen=True)
class StudyOutcome:
    """How a study ended."""

    page: Path  # the path of its page
    failed: int  # the number of runs that failed


def run_study(
    name: str | Path,
    out: str | Path,
    *,
    runs: str | Path | None = None,
    model: str = "",
    seeds: Sequence[int] = (),
    options: Mapping[str, Any] | None = None,
    stand_ins: bool = False,
    on_ray: bool = False,
    threads: int | None = None,
    quiet: bool = False,
) -> StudyOutcome:
    """Makes the runs of a study that are not there yet, and its page, which says what is not as in the study's file.

    Args:
        name: a study of the package, or a TOML file.
        out: the study's folder.
        runs: the folder of the runs, which studies can share; OUT/runs if None.
        model: replaces every model of the study.
        seeds: replace the study's.
        options: replace the options of the recipes and of the study's arms.
        stand_ins: use data that stand in for published data where these are only on the hub.
        on_ray: make runs at the same time, on the Ray cluster at RAY_ADDRESS or on Ray of this machine: a run on each
            GPU, or without GPUs on each `threads` processors. Else this process makes one run after another.
        threads: of each run on Ray; 1 if None.
        quiet: print nothing on standard error.

    Raises:
        InputError: the study, an option, a folder or a number is invalid. Errors in a single run are in the table.
    """
    if threads is not None and (threads < 1 or not on_ray):
        raise InputError(
            f"threads {threads}: 1 or more, for runs on Ray; OMP_NUM_THREADS is for those of this process"
        )
    published, out = read_study(name), Path(out)
    study = changed_study(published, seeds, options or {}, with_stand_ins=stand_ins)
    departed = departures(study, published, model, options or {})
    note, cost = " ".join(filter(None, [*departed, study.note])), "" if departed else study.cost
    study = study.model_copy(update={"note": note, "cost": cost})
    folder = Path(runs or out / "runs")
    for path in (out, folder):
        with telling(OSError, f"{path}: it can't be made", "; name another folder"):
            make_folder(path)
    console = PlainConsole(stderr=True, quiet=quiet, soft_wrap=True, force_jupyter=False)
    all_runs = StudyRuns(study, folder, model, console)
    with RayRuns(threads or 1) if on_ray else nullcontext() as tasks:
        all_runs.make(tasks)
    made = all_runs.made()
    sources = dict.fromkeys(source for run in all_runs.planned for source in run.inputs.data)
    Results(
        name=str(name),
        study=study,
        model=model,
        stand_ins=tuple(filter(is_stand_in, sources)),
        runs=made,
        statistics={dataset: _sizes(dataset) for dataset in study.statistics},
        comparisons=all_runs.compare(made),
        analyses=all_runs.analyse(out / "analyses"),
        facts={
            **{name: version(name) for name in ("isotune", "torch", "transformers")},
            "python": platform.python_version(),
            "platform": platform.platform(),
            "gpu": gpu_name(),
            "cores": os.cpu_count() or 1,
            "processes": tasks.count if tasks else 1,
            "threads of each": tasks.threads if tasks else torch.get_num_threads(),
            "made": time.strftime("%Y-%m-%d %H:%M"),
        },
    ).write(out)
    return StudyOutcome(write_page(out), len(all_runs.problems))


def _sizes(name: str) -> dict[str, float]:
    dataset = DATASETS[name]
    splits = [
        split for split in SIZES if split in dataset.splits and dataset.splits[split].gold_count
    ]
    counts = {split: len(list(read(f"{name}:{split}", dataset.row_types[0]))) for split in splits}
    return {**dict.fromkeys(SIZES, 0), **counts, "texts": len(list(read(name, Sentence)))}


class StudyRuns:
    """The runs of a study, each in a folder named by its key."""

    def __init__(self, study: Study, folder: Path, model: str, console: PlainConsole) -> None:
        self.study, self._say = study, console.print
        self.planned = plan_runs(study, model or None)  # the runs in the lines of the table
        self.tasks = (
            load_tasks(study.tasks) if study.tasks else []
        )  # now, so that a wrong name costs no run
        baselines = [run.baseline for run in self.planned if run.baseline]
        # Why a run failed; at first, those whose model is not on this machine.
        keys, self.problems = run_keys([*baselines, *self.planned], study.tasks, study.pairs)
        needed = {run.start for run in self.planned}
        if study.analyses:
            needed |= {run for run in self.planned if run.recipe and run.seed == study.seeds[0]}
        kept = {keys[run] for run in needed if run in keys}  # whose encoders are kept
        folders = {run: folder / key for run, key in keys.items()}

        def recipe(run: PlannedRun) -> dict[str, Any] | None:
            model = str(folders[run.start] / "encoder") if run.start else run.model
            return (
                {**run.recipe.table(), "model": model, "tasks": QUICK_TASKS} if run.recipe else None
            )

        self.jobs = {  # of these runs and their baselines, if their model is on this machine
            run: Job(
                folder=folders[run],
                recipe=recipe(run),
                model=run.model,
                encoder=run.encoder,
                tasks=study.tasks,
                pairs=study.pairs,
                classifier_seed=run.classifier_seed,
                keep=key in kept,
            )
            for run, key in keys.items()
        }

    def make(self, tasks: RayRuns | None = None) -> None:
        """Makes the runs that are not done, those of the first seed and cell first.

        Without `tasks`, this process makes them.
        """
        first: dict[Path, PlannedRun] = {}  # of the runs of each key
        for run in sorted(self.jobs, key=attrgetter("turn")):
            first.setdefault(self.jobs[run].folder, run)
        waiting = [run for run in first.values() if not self.jobs[run].is_done]
        self._say(
            f"{self.study.title}: {counted(len(first), 'run')}, {len(first) - len(waiting)} of them already done"
        )
        for job in (self.jobs[run] for run in waiting):
            if job.is_damaged:
                self._say(f"{job.folder}: a file in it is damaged; the run is made again")
        while waiting or (tasks and tasks.running):
            failed = next((run for run in waiting if run.start in self.problems), None)
            begun = tasks.running.values() if tasks else ()
            unmade = {job.folder for job in (*begun, *(self.jobs[run] for run in waiting))}
            ready = next(
                (
                    run
                    for run in waiting
                    if not run.start or self.jobs[run.start].folder not in unmade
                ),
                None,
            )
            if failed and failed.start:
                waiting.remove(failed)
                self._ended(failed, f"{failed.start.title} failed, from which it starts")
            elif ready and (not tasks or len(tasks.running) < tasks.count):
                waiting.remove(ready)
                if tasks:
                    tasks.start(self.jobs[ready])
                else:
                    self._ended(ready, try_to_make(self.jobs[ready]))
            elif tasks:
                job, problem = tasks.wait()
                self._ended(first[job.folder], problem)

    def _ended(self, run: PlannedRun, problem: str) -> None:
        problem = problem or ("" if self.jobs[run].is_done else "its result is not there")
        if problem:
            folder = self.jobs[run].folder
            self.problems |= {
                same: problem for same, job in self.jobs.items() if job.folder == folder
            }
            self._say(f"{run.title}: failed: {problem}")
            return
        values = self._values(run)
        printed = (score for score in self.study.scores if score in values)
        texts = [
            f"{score} {measured_digits(self.study, score, values[score])}" for score in printed
        ]
        self._say(f"{run.title}: {', '.join(texts) or 'made'}")

    def made(self) -> tuple[MadeRun, ...]:
        """The runs in the lines of the table, with the scores of those that are done."""
        return tuple(
            MadeRun(
                arm=run.arm,
                model=run.model,
                seed=run.seed,
                cell=dict(run.cell),
                run=self.jobs[run].folder.name if run in self.jobs else "",
                problem=self.problems.get(run, ""),
                values=self._values(run),
            )
            for run in self.planned
        )

    def _values(self, run: PlannedRun | None) -> dict[str, float]:
        job = self.jobs.get(run) if run else None
        if run is None or job is None or not job.is_done:
            return {}
        study, result = self.study, read_json(job.folder / RESULT)
        evaluation = Evaluation.model_validate(result["evaluation"])
        values: dict[str, float] = result["scores"] | evaluation.scores(
            study.aggregation, study.metric
        )
        for name, members in study.averages.items():
            if values.keys() >= set(members):
                values[name] = fmean(values[member] for member in members)
        baseline, cosines, predictions = (
            self._values(run.baseline),
            read_arrays(job.folder / VALUES),
            {},
        )
        if (job.folder / PREDICTIONS).exists():
            predictions = read_arrays(job.folder / PREDICTIONS)
        arrays = {
            f"{PREDICTED}:{key[4:]}": array
            for key, array in predictions.items()
            if key.startswith("dev")
        }
        arrays[COSINE] = cosines.get(PAIRS, next(iter(cosines.values()), np.zeros(0)))
        for score in study.scores:
            name, _, number = score.rpartition(":")
            if name in arrays and number.isdecimal() and int(number) < len(arrays[name]):
                values[score] = float(arrays[name][int(number)])
            if score.startswith(START) and score.removeprefix(START) in baseline:
                values[score] = baseline[score.removeprefix(START)]
        return values

    def compare(self, made: Sequence[MadeRun]) -> tuple[Comparison, ...]:
        """The comparisons between the lines of runs that were made."""
        folders = {
            (line_title(run.arm, run.cell), run.seed): job.folder for run, job in self.jobs.items()
        }
        tasks = [task for task in self.tasks if isinstance(task, DevTask)]
        lines = table_lines(self.study, made)
        return compare(
            self.study,
            lines,
            tasks,
            lambda line, seed: read_arrays(folders[line.title, seed] / VALUES),
        )

    def analyse(self, folder: Path) -> tuple[str, ...]:
        """Writes the study's analyses of the first seed's encoders; returns the names of those that were made."""
        encoders = _LazyEncoders()
        for run in self.planned:
            job = self.jobs.get(run)
            if job and job.is_done and run.seed in (None, self.study.seeds[0]):
                trained = partial(Encoder.load, job.folder / "encoder")
                untrained = partial(Encoder.load, run.model, **run.encoder.model_dump())
                encoders[line_title(run.arm, run.cell)] = trained if run.recipe else untrained
        names = []
        for name in self.study.analyses if encoders else ():
            try:
                analyse(name, encoders, self.study.analysed).write(folder)
                names.append(name)
            except InputError as error:
                self._say(f"analysis {name} failed: {error}")
        return tuple(names)


class _LazyEncoders(UserDict[str, Any]):
    """Encoders by name. Each is loaded at every access and not kept: all of a study's may not fit in memory."""

    def __getitem__(self, name: str) -> Encoder:
        return self.data[name]()
