"""What the runs of studies cost on this machine, told before they are made.

How many steps, evaluations and sentences a run has is counted from its plan (`plan.py`). How long
these take is measured here: a trial trains each kind of run for some steps, on its own model and
data. Runs are of one kind if they differ only in options that hardly change the time of a step,
such as the learning rate. A run may end before its last step (`patience`), so the time is the
longest.

Not counted are what a task computes from vectors (the classifiers of SentEval, uniformity), the
comparisons and analyses of a study, and runs that first need a translation.
"""

from __future__ import annotations

import json
import platform
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple, Self

import tomli_w
import torch
from filelock import FileLock

from isotune.data import Sentence, read
from isotune.encoder import Encoder, short_hash
from isotune.errors import InputError, counted
from isotune.evaluation import Task, seconds_of_encoding
from isotune.files import make_folder, read_json, write_text
from isotune.kernels import gpu_name
from isotune.lab.studies.job import read_tasks
from isotune.lab.studies.plan import PlannedRun
from isotune.lab.studies.run_key import PACKAGE, sources_hash
from isotune.lab.studies.run_study import QUICK_TASKS, StudyRuns
from isotune.recipes import Recipe
from isotune.training import StageLength, stage_lengths, train

FREE = frozenset(
    {
        "patience",
        "learning_rate",
        "rate_width",
        "schedule",
        "warmup",
        "temperature",
    }
)
"""Options of a stage that hardly change how long it takes."""

LENGTH = frozenset({"epochs", "steps", "eval_every", "sample"})
"""Options of a stage that change how many steps and evaluations there are, but not their time."""

ATTACK = "adversarial"
"""The only augmentation that costs time: it encodes the sentences again."""

MANY_STEPS = 20
"""The steps of a trial. The last ten are timed, because the first step is slower."""

FEW_STEPS = 2
"""The steps of a trial of a large model on a CPU, where a step takes many seconds."""

LARGE = 50_000_000
"""The weights of a large model."""

SAMPLE = 1_000
"""The sentences by which encoding is timed."""


class StagePace(NamedTuple):
    """The seconds that parts of a stage take."""

    step: float
    evaluation: float


class Pace(NamedTuple):
    """The seconds that parts of a kind of run take."""

    stages: Sequence[StagePace]
    """The stages, in order."""

    rest: float
    """All but steps and evaluations: reading, the scores of start and end, the report."""

    texts: int
    """The texts that `rest` has tokenized, and encoded if the stage is cached."""


class Speed(NamedTuple):
    """The seconds that a model takes for a sentence."""

    tokenize: float
    encode: float


@dataclass
class Estimate:
    """What runs cost."""

    runs: int = 0
    """The number of runs."""

    seconds: float = 0.0
    """The time of the runs that can be timed, one after another."""

    unknown: dict[str, int] = field(default_factory=dict)
    """Why other runs can't be timed, and how many these are."""

    def __iadd__(self, other: Estimate) -> Self:
        """Adds what other runs cost."""
        self.runs += other.runs
        self.seconds += other.seconds
        for reason, count in other.unknown.items():
            self.unknown[reason] = self.unknown.get(reason, 0) + count
        return self

    def __str__(self) -> str:
        if not self.runs:
            return "no run to make"
        text = f"{counted(self.runs, 'run')} to make, up to {_time(self.seconds)} on this machine"
        for reason, count in self.unknown.items():
            text += f"; the time of {counted(count, 'run')} among them is unknown: {reason}"
        return text


def _time(seconds: float) -> str:
    """A time in words. Less than an hour is told in minutes, rounded up."""
    hours = seconds / 3600
    if hours < 1:
        return counted(ceil(seconds / 60), "minute")
    if hours < 10:
        return f"{hours:.2f} hours"
    return f"{hours:,.0f} hours"


def seconds_of_training(lengths: Sequence[StageLength], pace: Pace, speed: Speed) -> float:
    """The seconds of a training of these stages at a pace."""
    seconds = pace.rest
    for length, stage in zip(lengths, pace.stages, strict=True):
        seconds += length.steps * stage.step + length.evaluations * stage.evaluation
        of_text = speed.tokenize
        if length.cached:
            of_text = speed.encode
        seconds += max(0, length.texts - pace.texts) * of_text
    return seconds


class Costs:
    """Estimates runs of studies. Each kind of run is tried once, and each model timed once."""

    def __init__(self, file: Path) -> None:
        """Takes the JSON file in which paces are kept, for later calls on the same machine."""
        self._file = file
        self._kept: dict[str, Any] = read_json(file, missing_ok=True)
        # Why kinds of runs can't be tried.
        self._problems: dict[str, str] = {}
        self._speed = cache(_speed)
        self._lengths = cache(_lengths)

    def estimate(self, runs: Iterable[PlannedRun], tasks: Sequence[Task]) -> Estimate:
        """What runs cost, one after another, that are evaluated on these tasks.

        Each run reads the tasks, and encodes each of their sentences once.
        """
        began = perf_counter()
        read_tasks([task.name for task in tasks])
        reading = perf_counter() - began
        sentences = sum(len(texts) for task in tasks for texts in task.texts().values())
        estimate = Estimate()
        for run in runs:
            estimate.runs += 1
            try:
                speed = self._speed(run.model)
                seconds = reading + sentences * speed.encode
                if run.recipe:
                    seconds += self._seconds_of_training(run, speed)
                estimate.seconds += seconds
            except InputError as error:
                reason = str(error)
                estimate.unknown[reason] = estimate.unknown.get(reason, 0) + 1
        return estimate

    def _pace(self, kind: str) -> Pace:
        """The pace of a kind of run, from its trial or from the file."""
        key = short_hash([kind, sources_hash(PACKAGE), *_machine()])
        if key not in self._kept:
            self._keep(key, _measured_pace(kind))
        stages, rest, texts = self._kept[key]
        return Pace([StagePace(*stage) for stage in stages], rest, texts)

    def _keep(self, key: str, pace: Pace) -> None:
        """Adds a pace to those in the file, to which other processes add too."""
        make_folder(self._file.parent)
        with FileLock(f"{self._file}.lock"):
            self._kept = {**read_json(self._file, missing_ok=True), key: pace}
            write_text(self._file, json.dumps(self._kept, indent=2) + "\n")

    def _seconds_of_training(self, run: PlannedRun, speed: Speed) -> float:
        assert run.recipe
        if run.inputs.models:
            raise InputError(f"it needs a translation by {run.inputs.models[0]}")
        table = {**run.recipe.table(), "model": run.model, "seed": 0}
        kind = _kind(table, FREE | LENGTH)
        if kind in self._problems:
            raise InputError(self._problems[kind])
        try:
            lengths = self._lengths(_kind(table, FREE))
            pace = self._pace(kind)
        except InputError as error:
            self._problems[kind] = str(error)
            raise
        return seconds_of_training(lengths, pace, speed)


def _machine() -> tuple[str, ...]:
    """What tells machines apart on which a step takes another time."""
    return platform.node(), platform.machine(), gpu_name(), str(torch.get_num_threads())


def _kind(table: Mapping[str, Any], dropped: Set[str]) -> str:
    """The table of a run without these options of its stages, as text.

    Augmentations count as one, because all but one take hardly any time.
    """
    stages = []
    for stage in table["stages"]:
        kept = {key: value for key, value in stage.items() if key not in dropped}
        if dropped >= LENGTH:
            kept["as_released"] = {**stage["as_released"], "upsample": False}
        augmentations = kept.get("augmentations", ())
        if augmentations and ATTACK not in augmentations:
            kept["augmentations"] = ["none"] * len(augmentations)
        stages.append(kept)
    return json.dumps({**table, "stages": stages})


def _lengths(kind: str) -> list[StageLength]:
    """How long the stages of a run are."""
    table = json.loads(kind)
    return stage_lengths(Recipe.from_table(table), table["model"])


def _measured_pace(kind: str) -> Pace:
    """The pace of a kind of run, from a trial of some steps."""
    table = json.loads(kind)
    steps = _trial_steps(table["model"])
    for stage in table["stages"]:
        # No evaluation comes between the start and the last step.
        stage |= {"steps": steps, "eval_every": 2 * MANY_STEPS}
    table["tasks"] = list(QUICK_TASKS)
    stamps: list[tuple[float, dict[str, Any]]] = []
    began = perf_counter()
    with TemporaryDirectory() as scratch:
        path = Path(scratch, "recipe.toml")
        path.write_text(tomli_w.dumps(table), "utf-8", newline="\n")

        def watch(record: dict[str, Any]) -> None:
            stamps.append((perf_counter(), record))

        result = train(out=Path(scratch, "run"), recipe=path, quiet=True, watch=watch)
    if result.stopped:
        # This ends the command, too.
        signal.raise_signal(signal.Signals[result.stopped])
    whole = perf_counter() - began
    lengths = stage_lengths(Recipe.from_table(table), table["model"])
    return _pace_of_trial(stamps, whole, lengths)


def _trial_steps(model: str) -> int:
    """The steps of a trial of this model."""
    backbone = Encoder.load(model).backbone
    weights = sum(parameter.numel() for parameter in backbone.parameters())
    if weights > LARGE and not gpu_name():
        return FEW_STEPS
    return MANY_STEPS


def _pace_of_trial(
    stamps: Sequence[tuple[float, dict[str, Any]]], whole: float, lengths: Sequence[StageLength]
) -> Pace:
    """The pace of a trial that took `whole` seconds, from its records and when they came."""
    paces = []
    rest = whole
    for number in range(1, len(lengths) + 1):
        events = []
        for when, record in stamps:
            if record["kind"] in ("train", "space") and record["stage"] == number:
                events.append((when, record))
        losses = [place for place, (_, record) in enumerate(events) if record["kind"] == "train"]
        if not losses:
            # A closed form takes no steps: all of its time is in the rest.
            paces.append(StagePace(0.0, 0.0))
            continue
        # The end of the stage: a record of the loss, and then the last evaluation.
        (_, before), (last_loss, loss), (last_evaluation, _) = events[losses[-1] - 1 :][:3]
        evaluation = last_evaluation - last_loss
        step = loss["seconds"] / (loss["step"] - before["step"])
        paces.append(StagePace(step, evaluation))
        rest -= evaluation * (len(events) - len(losses))
        rest -= sum(events[place][1]["seconds"] for place in losses)
    return Pace(paces, max(0.0, rest), max(length.texts for length in lengths))


def _speed(model: str) -> Speed:
    """How fast a model encodes sentences of the bundled pairs."""
    encoder = Encoder.load(model)
    sentences = [row.sentence for row in islice(read("stsb-open:train", Sentence), SAMPLE)]
    encoding = seconds_of_encoding(encoder, sentences)
    began = perf_counter()
    encoder.tokenize(sentences, encoder.max_length)
    tokenizing = perf_counter() - began
    return Speed(tokenizing / SAMPLE, encoding / SAMPLE)


def estimates(studies: Mapping[str, StudyRuns], file: Path) -> Iterator[tuple[str, Estimate]]:
    """What the runs of each study cost that are not made yet, with the study's name.

    A run that studies share counts in the first of them. The paces are kept in a JSON file.
    """
    costs = Costs(file)
    told: set[Path] = set()
    for name, study in studies.items():
        left = study.left()
        runs = [run for folder, run in left.items() if folder not in told]
        told.update(left)
        estimate = Estimate()
        if runs:
            estimate = costs.estimate(runs, study.tasks)
        yield name, estimate
