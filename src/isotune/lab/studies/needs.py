"""What a study needs: its runs, models and data, and which of them are on this machine. The hub is not asked."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from isotune.bundled import local_model
from isotune.data import DATASETS, available, stand_ins
from isotune.encoder import fetched_model
from isotune.evaluation import named_tasks, source_of
from isotune.lab.studies.plan import plan_runs
from isotune.lab.studies.study import Study


@dataclass(frozen=True)
class Needs:
    """What a study needs."""

    runs: int  # the number of its runs
    models: Mapping[str, bool]  # name -> whether the model is on this machine
    data: Mapping[str, bool]  # dataset or file -> whether it is on this machine

    @property
    def data_here(self) -> str:
        """What is on this machine: "published" data; "stand-in", if other data can take the place of the rest; "no"."""
        lacking = [source for source, here in self.data.items() if not here]
        if not lacking:
            return "published"
        return "stand-in" if all(_is_here(other) for source in lacking for other in stand_ins(source)) else "no"


def needs(study: Study, model: str = "") -> Needs:
    """What a study needs; `model` replaces every model of the study."""
    runs = plan_runs(study.model_copy(update={"seeds": study.seeds[:1]}), model or None)  # all seeds need the same
    inputs = [run.inputs for run in runs]
    models = [name for run, reads in zip(runs, inputs, strict=True) for name in (run.model, *reads.models)]
    of_tasks = [source_of(task) for task in named_tasks(study.tasks)] if runs and study.tasks else []
    sources = [*study.statistics, *of_tasks, *(source for reads in inputs for source in (*reads.data, *reads.dev))]
    return Needs(
        runs=sum(1 if run.seed is None else len(study.seeds) for run in runs),
        models={name: bool(local_model(name) or fetched_model(name)) for name in dict.fromkeys(models)},
        data={source: _is_here(source) for source in dict.fromkeys(sources)},
    )


def _is_here(source: str) -> bool:
    """Whether a dataset or file is on this machine."""
    name = source.partition(":")[0]
    return available(source) if name in DATASETS else Path(source).exists() or bool(glob.glob(source))
