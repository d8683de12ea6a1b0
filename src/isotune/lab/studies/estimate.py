"""What a study reads, whether that is on this machine, roughly how long its runs take, and which fit into a budget.

Encoding a text takes 2 floating-point operations (FLOP) for each weight of the transformer blocks and each token.
A training row costs as many encodings as its method's options say. A step takes at least a fixed time, whatever the
model. Left out are reading, translation, layers of a method's own, and the time saved by patience.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import torch

from isotune.bundled import local_model
from isotune.data import DATASETS, available
from isotune.data.datasets import stand_ins
from isotune.data.rows import LabelledSentence, Sentence
from isotune.evaluation import GROUPS
from isotune.lab.studies.plan import PlannedRun, plan_runs
from isotune.lab.studies.study import Study
from isotune.recipes import Inputs, Stage

TOKENS = 20  # of a text
TASK_TEXTS = 6_000  # of an evaluation task: the mean of the seven STS tasks
DEV_TEXTS = 3_000  # of the dev pairs: STS-B's
FILE_ROWS = 100_000  # of a source that is no named dataset
BASE, LARGE = (12, 768), (24, 1024)  # blocks and features of a BERT model


class Machine(NamedTuple):
    """The FLOP that a machine does in a second, all losses included, and the least seconds of a step."""

    flops: float
    step: float


CPU = Machine(2e11, 0.05)
"""Two cores of a server in float32: 300 steps of ConSERT on the bundled model, with the STS tasks, took 135 seconds
(docs/results.md), and are estimated at 137."""

GPU = Machine(1e13, 0.1)
"""Assumed, not measured. SG-OPT took 455 seconds on a Titan Xp (self-guided paper, Table 6), estimated at 153."""


@dataclass(frozen=True)
class Needs:
    """What a study needs."""

    runs: int  # the number of its runs
    cpu: float  # estimated hours on a CPU
    gpu: float  # estimated hours on a GPU
    models: Mapping[str, bool]  # name -> whether the model is on this machine
    data: Mapping[str, bool]  # dataset or file -> whether it is on this machine

    @property
    def data_here(self) -> str:
        """What is on this machine: "published" data; "stand-in", if other data can take the place of the rest; "no"."""
        lacking = [source for source, here in self.data.items() if not here]
        if not lacking:
            return "published"
        others = {other for source in lacking for other in stand_ins(source)}
        return "stand-in" if all(map(is_here, others)) else "no"


def needs(study: Study, model: str = "") -> Needs:
    """What a study needs; `model` replaces every model of the study. The hub is not asked."""
    runs = plan_runs(study.model_copy(update={"seeds": study.seeds[:1]}), model or None)  # all seeds need the same
    counts = [1 if run.seed is None else len(study.seeds) for run in runs]

    def hours(machine: Machine) -> float:
        return sum(n * seconds(run, study.tasks, machine) for run, n in zip(runs, counts, strict=True)) / 3600

    models = {name: model_folder(name) is not None for run in runs for name in models_of(run)}
    sources = [*study.statistics, *(source for run in runs for source in data_of(run, study.tasks))]
    data = {source: is_here(source) for source in dict.fromkeys(sources)}
    return Needs(sum(counts), hours(CPU), hours(GPU), models, data)


def seconds(run: PlannedRun, tasks: Iterable[str], machine: Machine) -> float:
    """The estimated seconds of a run and its evaluation, without the run that it starts from."""
    encodings: float = TASK_TEXTS * len({member for task in tasks for member in GROUPS.get(task, (task,))})
    all_steps = 0
    for stage, inputs in _stages(run):
        training, options = stage.training, stage.options
        rows = sum(_rows(source, options.rows_per_pair) for source in inputs.data)
        rows = min(rows, training.sample or rows)
        steps = training.total_steps(max(1, int(rows) // training.batch_size))
        evaluations = 0 if run.recipe and run.recipe.dev == "none" else steps // training.eval_every
        encodings += steps * training.batch_size * options.encodings_per_row + DEV_TEXTS * evaluations
        all_steps += steps if options.encodings_per_row >= 1 else 0  # a step on stored vectors is much shorter
    return encodings * 2 * _weights(run.model) * TOKENS / machine.flops + all_steps * machine.step


class Budget:
    """Decides which runs there is time for. Estimates are scaled by the time that finished runs really took.

    Attributes:
        minutes: the time for all runs.
        left_out: the runs for which there was no time.
    """

    def __init__(self, minutes: float, tasks: Iterable[str]) -> None:
        self.minutes = minutes
        self.left_out: list[PlannedRun] = []
        self._end = monotonic() + 60 * minutes
        self._tasks, self._machine = tuple(tasks), GPU if torch.cuda.is_available() else CPU
        self._begun: dict[PlannedRun, tuple[float, float]] = {}  # when a run began, and its estimated seconds
        self._estimated = self._measured = 0.0  # seconds of the runs that have finished

    def admit(self, run: PlannedRun) -> bool:
        """Whether there is time for this run. If so, it counts as begun now."""
        now, estimate = monotonic(), seconds(run, self._tasks, self._machine)
        scale = self._measured / self._estimated if self._estimated else 1.0
        if now + scale * estimate > self._end:
            self.left_out.append(run)
            return False
        self._begun[run] = now, estimate
        return True

    def finished(self, run: PlannedRun) -> None:
        """Compares a finished run with its estimate."""
        begun, estimate = self._begun.pop(run)
        self._measured += monotonic() - begun
        self._estimated += estimate


def data_of(run: PlannedRun, tasks: Iterable[str]) -> Iterator[str]:
    """All data that a run reads: of its tasks, to train on, and to choose the best step."""
    for task in (member for name in tasks for member in GROUPS.get(name, (name,))):
        # A task has the name of its dataset, with these exceptions.
        name = task if task in DATASETS else re.sub("^(senteval-(50-)?|geometry:)", "", task)
        yield {"geometry": "stsb:dev", "geometry-qqp": "minbert-quora:dev"}.get(name, name)
    for _, inputs in _stages(run):
        yield from (*inputs.data, *inputs.dev)
        if run.recipe and run.recipe.dev_pairs and not inputs.dev:
            yield run.recipe.dev_pairs


def models_of(run: PlannedRun) -> Iterator[str]:
    """The models that a run loads: its own and those that translate for it."""
    if run.model:
        yield run.model
    for _, inputs in _stages(run):
        yield from inputs.models


def _stages(run: PlannedRun) -> list[tuple[Stage, Inputs]]:
    """The stages of a run with what each reads; none of an untrained model."""
    return [(stage, run.recipe.inputs(stage)) for stage in run.recipe.stages] if run.recipe else []


def is_here(source: str) -> bool:
    """Whether a dataset or file is on this machine. The hub is not asked."""
    name = source.partition(":")[0]
    return available(source) if name in DATASETS else Path(source).exists() or bool(glob.glob(source))


def model_folder(model: str) -> Path | None:
    """The folder of a model on this machine, also in the hub's cache. The hub is not asked."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if path := local_model(model):
        return path
    try:
        weights = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
        files = [try_to_load_from_cache(model, name) for name in weights]
    except HFValidationError:
        return None
    return next((Path(file).parent for file in files if isinstance(file, str)), None)


@cache
def _weights(model: str) -> int:
    """The weights of a model's blocks: each has 4 d^2 for attention and 2 d times the inner size for the rest.

    The sizes are in the model's folder if it is on this machine, or else in its name; BERT-base's are the default.
    """
    folder = model_folder(model) if model else None
    try:
        config = json.loads((folder / "config.json").read_text("utf-8")) if folder else {}
    except (OSError, ValueError):
        config = {}
    named = re.search(r"L-(\d+)_H-(\d+)", model)
    blocks, d = map(int, named.groups()) if named else LARGE if "-large" in model else BASE
    blocks, d = config.get("num_hidden_layers", blocks), config.get("hidden_size", d)
    return int(blocks * (4 * d**2 + 2 * d * config.get("intermediate_size", 4 * d)))


def _rows(source: str, rows_per_pair: float) -> float:
    """The training rows in a source."""
    name, _, split = source.partition(":")
    if name not in DATASETS:
        return FILE_ROWS
    dataset = DATASETS[name]
    rows = sum(part.row_count for known, part in dataset.splits.items() if split in ("", known))
    single = dataset.row_types[0] in (Sentence, LabelledSentence)
    return rows * (1 if single else rows_per_pair) + sum(_rows(member, rows_per_pair) for member in dataset.union)
