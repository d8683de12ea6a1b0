"""One run of a study: trained unless it is there already, evaluated, and kept as result.json.

The result is written last, after the checksums of the files that a study reads: a run is done if
its files are those.

While a run is made, the lock file beside its folder is held, so two studies never make the same run
at the same time. Runs are made in this process, one after another, or at the same time by Ray
(`RayRuns`).
"""

import json
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tomli_w
import torch
from filelock import FileLock

import isotune
from isotune.cluster import Tasks, connect
from isotune.data import ScoredPairs
from isotune.encoder import Encoder, EncoderOptions
from isotune.errors import InputError, as_input_error
from isotune.evaluation import (
    DevTask,
    Evaluation,
    RunEvaluation,
    Task,
    TaskResult,
    TransferTask,
    cosine_similarities,
    evaluation_of,
    load_tasks,
)
from isotune.files import (
    CHECKSUMS,
    checksum_of,
    checksums,
    make_folder,
    remove,
    sync,
    verify_checksums,
    write_arrays,
    write_text,
)
from isotune.kernels import DEVICE
from isotune.report import group_by_stage, read_records
from isotune.training import check_tensors, is_finished, remove_checkpoints, train

logger = logging.getLogger(__name__)

RESULT = "result.json"

VALUES = "study-values.npz"
"""Has for each task the cosines of its pairs, or the measures of its queries."""

PAIRS = "pairs"
"""The name of the cosines of the study's pairs among the values of its tasks."""

CHECKPOINTS = ("last.safetensors", "best-*.safetensors")
"""The files that a training needs to be resumed."""


@dataclass(frozen=True)
class Job:
    """What `make` needs to know of a run."""

    folder: Path
    """The run's folder."""

    recipe: dict[str, Any] | None
    """The table of its recipe, model included; None for an untrained model."""

    model: str
    """The untrained model."""

    encoder: EncoderOptions
    """How vectors are taken from an untrained model."""

    tasks: tuple[str, ...]
    """What the run is evaluated on."""

    keep: bool
    """Whether the trained encoder is needed later."""

    pairs: tuple[tuple[str, str], ...] = ()
    """Sentences whose cosines are needed."""

    classifier_seed: int | None = None
    """The seed of SentEval's classifiers; SentEval's own if None."""

    def __str__(self) -> str:
        return self.folder.name

    @property
    def is_done(self) -> bool:
        """Whether the run was made, is not damaged, and has its encoder if that is needed."""
        has_encoder = not self.keep or (self.folder / "encoder").exists()
        return has_encoder and self.is_made and not self.is_damaged

    @property
    def is_made(self) -> bool:
        """Whether the result of the run was written, which is the last of its files."""
        return (self.folder / RESULT).exists()

    @property
    def is_damaged(self) -> bool:
        """Whether the run can't be used or resumed, because a file in it is damaged.

        The files of a run that was made are compared with its checksums, which must be there. Of
        other runs, the checkpoints are read.
        """
        try:
            if self.is_made:
                return not verify_checksums(self.folder)
            for checkpoint in chain(*map(self.folder.glob, CHECKPOINTS)):
                check_tensors(checkpoint)
        except InputError:
            return True
        return False

    @property
    def can_be_resumed(self) -> bool:
        """Whether the training of the run has begun, and can go on or is over."""
        has_begun = (self.folder / "recipe.toml").exists()
        return has_begun and not self.is_made and not self.is_damaged


def make(job: Job) -> None:
    """Makes a run, or resumes one that was stopped, and then removes its weights.

    Does nothing if the run is done.
    """
    folder = job.folder
    make_folder(folder.parent)
    with FileLock(f"{folder}.lock"):
        if job.is_done:
            return
        if not job.can_be_resumed:
            # The run is damaged, lacks an encoder that is needed now, or was killed before it
            # began.
            _drop(folder)
        make_folder(folder)
        encoder = _encoder(job)
        evaluation = _evaluate(job, encoder)
        scores = {}
        if job.recipe:
            scores = _training_scores(folder)
        content = {"scores": scores, "evaluation": evaluation.model_dump(mode="json")}
        result = json.dumps(content, indent=2) + "\n"
        _write_checksums(folder, result)
        write_text(folder / RESULT, result)
        _drop(folder / "start")
        if not job.keep:
            _drop(folder / "encoder")


def _encoder(job: Job) -> Encoder:
    """The encoder of a run, which is trained first if the run has a recipe."""
    if job.recipe is None:
        return Encoder.load(job.model, **job.encoder.model_dump())
    _train(job.folder, job.recipe)
    return Encoder.load(job.folder / "encoder")


def _evaluate(job: Job, encoder: Encoder) -> Evaluation:
    """Evaluates a run's encoder on its tasks and pairs; writes the rows' values into `VALUES`."""
    results: list[TaskResult] = []
    values = {}
    for task in read_tasks(job.tasks):
        if isinstance(task, TransferTask) and job.classifier_seed is not None:
            task = task.with_seed(job.classifier_seed)
        result, row_values = task.score(encoder)
        results.append(result)
        if isinstance(task, DevTask):
            values[task.name] = row_values
    evaluation = evaluation_of(results, job.model or job.folder.name)
    if job.pairs:
        first, second = map(list, zip(*job.pairs, strict=True))
        pairs = ScoredPairs(PAIRS, "", first, second, np.empty(0), [])
        values[PAIRS] = cosine_similarities(encoder, pairs)
    write_arrays(job.folder / VALUES, values)
    return evaluation


def read_tasks(names: Sequence[str]) -> list[Task]:
    """Reads the tasks of a study, which may have none."""
    if not names:
        return []
    return load_tasks(names)


def _write_checksums(folder: Path, result: str) -> None:
    """Adds checksums to those of the training: of the result, not written yet, and the values."""
    path = folder / CHECKSUMS
    lines = []
    if path.exists():
        lines = path.read_text("utf-8").splitlines(keepends=True)
    of_training = [line for line in lines if not line.rstrip().endswith((RESULT, VALUES))]
    of_study = checksum_of(result, RESULT) + checksums(folder, (VALUES,))
    write_text(path, "".join(of_training) + of_study)


def _drop(path: Path) -> None:
    """Removes a file or folder; if the process is killed meanwhile, no part has its name."""
    old = path.with_name(f"{path.name}.old")
    remove(old)
    if path.exists():
        path.rename(old)
        sync(path.parent)
        remove(old)


def _train(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Trains a run or resumes it. Does nothing if its training is over."""
    if (folder / "recipe.toml").exists():
        if is_finished(folder):
            remove_checkpoints(folder)
            return
        result = train(out=folder, resume=True, quiet=True)
    else:
        with TemporaryDirectory() as scratch:
            path = Path(scratch, "recipe.toml")
            path.write_text(tomli_w.dumps(recipe), "utf-8")
            result = train(out=folder, recipe=path, quiet=True)
    if result.stopped:
        # This ends the study, too.
        signal.raise_signal(signal.Signals[result.stopped])


def _training_scores(folder: Path) -> dict[str, float]:
    """The scores of a training by the names of `RUN_SCORES`, and the parts of means."""
    records = read_records(folder / "metrics.jsonl")
    stages = group_by_stage(records, ())
    evaluation = RunEvaluation.read(folder / "evaluation.json")
    scores: dict[str, float] = {
        "kept_step": evaluation.selected_step,
        "steps": max(stage.steps[1] for stage in stages),
    }
    scored_stages = [stage for stage in stages if stage.dev]
    if scored_stages:
        last = scored_stages[-1]
        scores["dev"] = last.kept["score"]
        for part in last.parts:
            scores[f"dev:{part}"] = last.kept[part]
    tested = stages[-1].tested
    if tested:
        scores["test"] = fmean(tested.values())
        for part, value in tested.items():
            scores[f"test:{part}"] = value
    if records["train"]:
        # These are the seconds of the steps, without evaluations.
        scores["seconds"] = sum(record["seconds"] for record in records["train"])
    return scores


def try_to_make(job: Job) -> str:
    """Makes a run in this process; gives the reason of its failure, or ""."""
    try:
        make(job)
    except (InputError, OSError) as error:
        return str(error)
    except Exception as error:
        # This is a defect, of a plugin or ours, or a lack of memory. Other runs can be made.
        logger.exception("run %s", job)
        return f"{type(error).__name__}: {error}"
    return ""


class RayRuns(Tasks[Job, str]):
    """Makes runs at the same time on a Ray cluster, whose machines share the runs' folder."""

    def __init__(self, threads: int) -> None:
        """Connects to the cluster.

        The cluster makes a run on each GPU; without GPUs, on each `threads` processors.
        """
        cpus, gpus = connect()
        self.threads = threads
        self.count = gpus or max(1, cpus // threads)
        work = partial(_make_there, os.getcwd(), threads)
        super().__init__(work, threads, min(gpus, 1), reused=False)


def _make_there(folder: str, threads: int, job: Job) -> str:
    isotune.tune_process()
    torch.set_num_threads(threads)
    # Tokenizers have as many threads.
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    # The task sees its own GPU alone, so the number of a GPU is dropped.
    os.environ[DEVICE] = os.environ.get(DEVICE, "").partition(":")[0]
    with as_input_error(OSError, f"{folder}: a machine of the cluster can't use this folder"):
        os.chdir(folder)
    return try_to_make(job)
