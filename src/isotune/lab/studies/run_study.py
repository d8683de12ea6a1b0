"""A study from its file to its page: what `isotune study` does.

Each run is made once, in RUNS/KEY. A study that was stopped and is started again, or another study that shares RUNS,
uses the runs that are there. Then the study's folder is written anew, also if runs failed: study.json and
study.parquet, the figures, and the page last.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import inf
from pathlib import Path

import torch
from rich.console import Console

from isotune.data import DATASETS, Sentence
from isotune.errors import InputError
from isotune.files import make_folder
from isotune.lab.studies import read_study
from isotune.lab.studies.page import write_page
from isotune.lab.studies.processes import Processes
from isotune.lab.studies.results import Results
from isotune.lab.studies.runs import StudyRuns
from isotune.lab.studies.study import SIZES, Study


@dataclass(frozen=True)
class StudyOutcome:
    """How a study ended."""

    page: Path  # the path of its page
    failed: int  # the number of runs that failed


def run_study(
    name: str | Path,
    out: str | Path,
    *,
    study: Study | None = None,
    runs: str | Path | None = None,
    model: str = "",
    seeds: Sequence[int] = (),
    minutes: float = inf,
    stand_ins: bool = False,
    processes: int | None = None,
    threads: int | None = None,
    quiet: bool = False,
) -> StudyOutcome:
    """Makes the runs of a study that are not there yet, and its page.

    Args:
        name: a study of the package, or a TOML file.
        out: the study's folder.
        study: the study itself, if it differs from the one called `name`.
        runs: the folder of the runs, which studies can share; OUT/runs if None.
        model: replaces every model of the study.
        seeds: replace the study's.
        minutes: no run begins after this time.
        stand_ins: train on data that stand in for published data where these are only on the hub.
        processes: runs made side by side; if None, one a GPU, or without a GPU one a core, at most 4.
        threads: threads of each process; an equal share of the cores if None.
        quiet: print nothing on standard error.

    Raises:
        InputError: the study, a folder or a number is invalid. Errors in a single run are in the study's table instead.
    """
    for option, count in (("processes", processes), ("threads", threads)):
        if count is not None and count < 1:
            raise InputError(f"{option} {count}: at least 1 is needed")
    study = study or read_study(name)
    changes = {"seeds": tuple(seeds) or study.seeds, "stand_ins": stand_ins or study.stand_ins}
    study, out = study.model_copy(update=changes), Path(out)
    folder = Path(runs or out / "runs")
    try:
        make_folder(out)
        make_folder(folder)
    except OSError as error:
        raise InputError(f"{error.filename}: it can't be made ({error.strerror}); name another folder") from error
    all_runs = StudyRuns(study, folder, model, Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True))
    with Processes(processes, threads) as workers:
        all_runs.make(workers, minutes)
    made = all_runs.made()
    Results(
        name=str(name),
        study=study,
        model=model,
        stand_ins=all_runs.stand_ins,
        runs=made,
        statistics={dataset: _sizes(dataset) for dataset in study.statistics},
        comparisons=all_runs.compare(made),
        analyses=all_runs.analyse(out / "analyses"),
        facts=_facts(workers),
    ).write(out)
    return StudyOutcome(write_page(out), len(all_runs.problems))


def _sizes(name: str) -> dict[str, float]:
    """The sizes of a dataset, as `SIZES` names them."""
    dataset = DATASETS[name]
    members = [_sizes(member) for member in dataset.union]
    splits = {split: part.gold_count for split, part in dataset.splits.items()}
    texts = sum(part.row_count for part in dataset.splits.values()) * (1 if dataset.row_types == (Sentence,) else 2)
    all_texts = sum((sizes["texts"] for sizes in members), float(texts))
    return {size: all_texts if size == "texts" else float(splits.get(size, 0)) for size in SIZES}


def _facts(workers: Processes) -> dict[str, str | int]:
    """The versions and the machine that made a study, and when."""
    return {
        **{name: version(name) for name in ("isotune", "torch", "transformers")},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "cores": os.cpu_count() or 1,
        "processes": workers.count,
        "threads of each": workers.threads,
        "made": time.strftime("%Y-%m-%d %H:%M"),
    }
