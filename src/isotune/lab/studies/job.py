"""One run of a study: trained unless it is there already, evaluated on the study's tasks, and kept as result.json.

The result is written last, after the checksums of the files that a study reads: a run is done if its files are those.

While a run is made, the lock file beside its folder is held, so two studies never make the same run at the same time.
Runs are made in this process, one after another, or at the same time by Ray (`RayRuns`).
"""

import json
import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
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
from isotune.errors import InputError, telling
from isotune.evaluation import (
    DevTask,
    RunEvaluation,
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
from isotune.training import is_finished, remove_checkpoints, train

logger = logging.getLogger(__name__)

RESULT = "result.json"
VALUES = (
    "study-values.npz"  # of each task: the cosines of its pairs, or the measures of its queries
)
PAIRS = "pairs"  # the cosines of the study's pairs among the values of its tasks


@dataclass(frozen=True)
class Job:
    """What `make` needs to know of a run."""

    folder: Path  # the run's folder
    recipe: dict[str, Any] | None  # its table, model included; None for an untrained model
    model: str  # the untrained model
    encoder: EncoderOptions  # how vectors are taken from an untrained model
    tasks: tuple[str, ...]  # what the run is evaluated on
    keep: bool  # whether the trained encoder is needed later
    pairs: tuple[tuple[str, str], ...] = ()  # sentences whose cosines are needed
    classifier_seed: int | None = None  # of SentEval's classifiers; SentEval's own if None

    def __str__(self) -> str:
        return self.folder.name

    @property
    def is_done(self) -> bool:
        """Whether the run has been made and is not damaged, and has its encoder if that is needed."""
        has_encoder = not self.keep or (self.folder / "encoder").exists()
        return has_encoder and self.is_made and not self.is_damaged

    @property
    def is_made(self) -> bool:
        """Whether the result of the run was written, which is the last of its files."""
        return (self.folder / RESULT).exists()

    @property
    def is_damaged(self) -> bool:
        """Whether the files of a run that was made are no longer those that were written, or have no checksums."""
        try:
            return self.is_made and not verify_checksums(self.folder)
        except InputError:
            return True


def make(job: Job) -> None:
    """Makes a run, or resumes one that was stopped, and then removes its weights.

    Does nothing if the run is done.
    """
    folder = job.folder
    make_folder(folder.parent)
    with FileLock(f"{folder}.lock"):
        if job.is_done:
            return
        if job.is_made or not (folder / "recipe.toml").exists():
            _drop(
                folder
            )  # it is damaged, was made without the encoder that is needed now, or killed before it began
        make_folder(folder)
        if job.recipe is None:
            encoder = Encoder.load(job.model, **job.encoder.model_dump())
        else:
            _train(folder, job.recipe)
            encoder = Encoder.load(folder / "encoder")
        results: list[TaskResult] = []
        values = {}
        for task in load_tasks(job.tasks) if job.tasks else ():
            if isinstance(task, TransferTask) and job.classifier_seed is not None:
                task = task.with_seed(job.classifier_seed)
            scored, of_rows = task.score(encoder)
            results.append(scored)
            if isinstance(task, DevTask):
                values[task.name] = of_rows
        evaluation = evaluation_of(results, job.model or folder.name)
        if job.pairs:
            first, second = map(list, zip(*job.pairs, strict=True))
            values[PAIRS] = cosine_similarities(
                encoder, ScoredPairs(PAIRS, "", first, second, np.empty(0), [])
            )
        write_arrays(folder / VALUES, values)
        scores = _training_scores(folder) if job.recipe else {}
        result = (
            json.dumps(
                {"scores": scores, "evaluation": evaluation.model_dump(mode="json")}, indent=2
            )
            + "\n"
        )
        sums = folder / CHECKSUMS
        lines = sums.read_text("utf-8").splitlines(True) if sums.exists() else []
        of_training = "".join(
            line for line in lines if not line.rstrip().endswith((RESULT, VALUES))
        )
        write_text(sums, of_training + checksum_of(result, RESULT) + checksums(folder, (VALUES,)))
        write_text(folder / RESULT, result)
        for path in (folder / "start", *(() if job.keep else (folder / "encoder",))):
            _drop(path)


def _drop(path: Path) -> None:
    """Removes a file or folder, of which no part stays under its name if this process is killed meanwhile."""
    remove(old := path.with_name(f"{path.name}.old"))
    if path.exists():
        path.rename(old)
        sync(path.parent)
        remove(old)


def _train(folder: Path, recipe: Mapping[str, Any]) -> None:
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
        signal.raise_signal(signal.Signals[result.stopped])  # which ends the study, too


def _training_scores(folder: Path) -> dict[str, float]:
    records = read_records(folder / "metrics.jsonl")
    recorded = group_by_stage(records, ())
    evaluation = RunEvaluation.read(folder / "evaluation.json")
    last_step = max(stage.steps[1] for stage in recorded)
    scores: dict[str, float] = {"kept_step": evaluation.selected_step, "steps": last_step}
    if scored := [stage for stage in recorded if stage.dev]:
        kept = scored[-1].kept
        scores |= {"dev": kept["score"], **{f"dev:{part}": kept[part] for part in scored[-1].parts}}
    if tested := recorded[-1].tested:
        scores |= {
            "test": fmean(tested.values()),
            **{f"test:{part}": value for part, value in tested.items()},
        }
    seconds = sum(
        record["seconds"] for record in records["train"]
    )  # of the steps, without evaluations
    return scores | ({"seconds": seconds} if records["train"] else {})


def try_to_make(job: Job) -> str:
    """Makes a run in this process; gives the reason of its failure, or ""."""
    try:
        make(job)
    except (InputError, OSError) as error:
        return str(error)
    except (
        Exception
    ) as error:  # a defect, of a plugin or ours, or a lack of memory: other runs can be made
        logger.exception("run %s", job)
        return f"{type(error).__name__}: {error}"
    return ""


class RayRuns(Tasks[Job, str]):
    """Makes runs at the same time on a Ray cluster, whose machines share the runs' folder."""

    def __init__(self, threads: int) -> None:
        """Connects to the cluster.

        It makes a run on each GPU; without GPUs, on each `threads` processors.
        """
        cpus, gpus = connect()
        self.threads, self.count = threads, gpus or max(1, cpus // threads)
        super().__init__(
            partial(_make_there, os.getcwd(), threads), threads, min(gpus, 1), reused=False
        )


def _make_there(folder: str, threads: int, job: Job) -> str:
    isotune.tune_process()
    torch.set_num_threads(threads)
    os.environ["RAYON_NUM_THREADS"] = str(threads)  # of tokenizers
    os.environ[DEVICE] = os.environ.get(DEVICE, "").partition(":")[
        0
    ]  # the task sees its own GPU alone
    with telling(OSError, f"{folder}: a machine of the cluster can't use this folder"):
        os.chdir(folder)
    return try_to_make(job)
