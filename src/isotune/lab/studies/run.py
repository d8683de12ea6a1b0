"""A study, from its file to its page: what `isotune study` does.

Runs are made in RUNS/KEY, each once: a study that was killed and is started again, or another one that shares RUNS,
finds what is there. When all are made, or as far as they are, the folder of the study is written anew: study.json and
study.parquet, the figures, and the page last.
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch
from rich.console import Console

from isotune.data import DATASETS, Sentence
from isotune.errors import InputError
from isotune.lab.studies import read_study
from isotune.lab.studies.budget import Budget
from isotune.lab.studies.engine import Engine
from isotune.lab.studies.page import write_page
from isotune.lab.studies.processes import Processes
from isotune.lab.studies.study import SPLITS, Study
from isotune.lab.studies.table import Results
from isotune.training.interrupt import StopSignal


@dataclass(frozen=True)
class Outcome:
    """What a study leaves.

    Attributes:
        page: what shows it.
        failed: how many runs failed.
        stopped: the signal that ended it early, by name.
    """

    page: Path
    failed: int
    stopped: str | None

    @property
    def code(self) -> int:
        """The exit code of a command that ends so."""
        return 128 + signal.Signals[self.stopped] if self.stopped else int(bool(self.failed))


def run_study(
    name: str | Path,
    out: str | Path,
    *,
    study: Study | None = None,
    runs: str | Path | None = None,
    model: str = "",
    seeds: Sequence[int] = (),
    budget: float | None = None,
    processes: int | None = None,
    threads: int | None = None,
    quiet: bool = False,
) -> Outcome:
    """Makes the runs of a study that aren't there yet, and its page.

    Args:
        name: a study of the package, or a TOML file.
        out: the study's folder.
        study: the study of that name, where it isn't as its file has it.
        runs: where runs are kept, which studies can share; OUT/runs if None.
        model: takes the place of every model that the study names.
        seeds: in place of the study's.
        budget: minutes in which runs are begun, those that will be over by then by their estimate; all if None.
        processes: runs side by side; one a GPU if None, or without any a core, 4 at most.
        threads: of each process; their share of the cores if None.
        quiet: say nothing on standard error.

    Raises:
        InputError: the study or a number can't be used; what is wrong with a single run is in its table.
    """
    for what, count in (("processes", processes), ("threads", threads)):
        if count is not None and count < 1:
            raise InputError(f"{what} {count}: at least 1 is needed")
    study = study or read_study(name)
    if seeds:
        study = study.model_copy(update={"seeds": tuple(seeds)})
    out = Path(out)
    folder = Path(runs or out / "runs")
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{error.filename}: it can't be made ({error.strerror}); name another folder") from error
    engine = Engine(study, folder, model, Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True))
    limit = None if budget is None else Budget(budget, study.tasks)
    with Processes(out / "processes.log", processes, threads) as workers, StopSignal() as stop:
        engine.make(workers, stop, limit)
    analyses = () if stop.received else engine.analyse(out / "analyses")
    made = tuple(map(engine.made, engine.runs))
    results = Results(
        name=str(name),
        study=study,
        model=model,
        runs=made,
        statistics={name: _sizes(name) for name in study.statistics},
        comparisons=tuple(engine.compare(made)),
        selection=tuple(engine.select()),
        analyses=analyses,
        facts=_facts(workers),
    )
    results.write(out)
    return Outcome(write_page(out), len(engine.problems), stop.received.name if stop.received else None)


def _sizes(name: str) -> dict[str, float]:
    """How large a dataset is: rows of each split with a score or label, and texts of all rows."""
    dataset = DATASETS[name]
    sizes = [_sizes(member) for member in dataset.union]
    splits = {split: part.gold_count for split, part in dataset.splits.items()}
    texts = sum(part.row_count for part in dataset.splits.values()) * (1 if dataset.row_types == (Sentence,) else 2)
    return {
        **{split: float(splits.get(split, 0)) for split in SPLITS},
        "texts": sum((size["texts"] for size in sizes), float(texts)),
    }


def _facts(workers: Processes) -> dict[str, str | int]:
    """Where a study was made."""
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
