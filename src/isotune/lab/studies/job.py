"""One run of a study: trained unless it is there already, and scored on the tasks that it lacks.

| what | where | what shows that it is whole |
|---|---|---|
| the training | RUNS/KEY | result.json, its last file, and SHA256SUMS |
| the scores on a task | RUNS/KEY.scores/KEY-OF-TASK, which appears whole | SHA256SUMS |

So studies with other tasks share the training. An encoder that was not kept is trained again for
another task, and the scores that are there stay.

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
    Floats,
    RunEvaluation,
    Task,
    TaskResult,
    TransferTask,
    cosine_similarities,
    evaluation_of,
    load_tasks,
    seconds_of_encoding,
)
from isotune.files import (
    CHECKSUMS,
    atomic_write,
    checksum_of,
    checksums,
    make_folder,
    read_arrays,
    read_json,
    remove,
    sync,
    verify_checksums,
    write_arrays,
    write_text,
)
from isotune.kernels import DEVICE
from isotune.lab.studies.study import ENCODING, PAIRS
from isotune.report import group_by_stage, read_records
from isotune.training import check_tensors, is_finished, remove_checkpoints, train

logger = logging.getLogger(__name__)

RESULT = "result.json"

EVALUATION = "evaluation.json"
"""The scores on a task."""

VALUES = "values.npz"
"""The cosines of a task's pairs, or the measures of its queries, under the task's name."""

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

    tasks: Mapping[str, str]
    """What the run is scored on, and the key of each; with `PAIRS` if there are pairs, and with
    the scores that are seconds of encoding."""

    keep: bool
    """Whether the trained encoder is needed later."""

    pairs: tuple[tuple[str, str], ...] = ()
    """Sentences whose cosines are needed."""

    classifier_seed: int | None = None
    """The seed of SentEval's classifiers; SentEval's own if None."""

    def __str__(self) -> str:
        return self.folder.name

    @property
    def all_scores(self) -> Path:
        """The folder of the run's scores, of all studies."""
        return self.folder.with_name(f"{self.folder.name}.scores")

    def scores_on(self, task: str) -> Path:
        """The folder of the scores on a task."""
        return self.all_scores / self.tasks[task]

    @property
    def unscored(self) -> list[str]:
        """The tasks on which the run is not scored yet."""
        return [task for task in self.tasks if not self.scores_on(task).exists()]

    @property
    def is_trained(self) -> bool:
        """Whether its training was over once, or there is none; result.json is the last file."""
        return self.recipe is None or (self.folder / RESULT).exists()

    @property
    def has_encoder(self) -> bool:
        """Whether its encoder is there; an untrained one always is."""
        return self.recipe is None or (self.folder / "encoder").exists()

    @property
    def is_done(self) -> bool:
        """Whether the run was made, is not damaged, and has its encoder if that is needed."""
        is_made = self.is_trained and not self.unscored
        lacks_encoder = self.keep and not self.has_encoder
        return is_made and not lacks_encoder and not self.is_damaged

    @property
    def is_damaged(self) -> bool:
        """Whether the run can't be used or resumed, because a file in it is damaged.

        The files of a training that is over, and of scores, are compared with their checksums,
        which must be there. Of other trainings, the checkpoints are read.
        """
        return self.training_is_damaged or bool(self.damaged_scores)

    @property
    def training_is_damaged(self) -> bool:
        """Whether a file of the training is damaged."""
        if self.is_trained:
            return self.recipe is not None and _is_damaged(self.folder)
        try:
            for checkpoint in chain(*map(self.folder.glob, CHECKPOINTS)):
                check_tensors(checkpoint)
        except InputError:
            return True
        return False

    @property
    def damaged_scores(self) -> list[Path]:
        """The folders of scores in which a file is damaged."""
        folders = [self.scores_on(task) for task in self.tasks]
        return [folder for folder in folders if folder.exists() and _is_damaged(folder)]

    @property
    def can_be_resumed(self) -> bool:
        """Whether the training of the run has begun, and can go on or is over."""
        has_begun = (self.folder / "recipe.toml").exists()
        return has_begun and not self.is_trained and not self.training_is_damaged

    def training_scores(self) -> dict[str, float]:
        """The scores of its training by the names of `RUN_SCORES`, and the parts of means."""
        if self.recipe is None:
            return {}
        scores: dict[str, float] = read_json(self.folder / RESULT)["scores"]
        return scores

    def evaluation(self) -> Evaluation:
        """Its scores on all tasks."""
        results: list[TaskResult] = []
        for task in self.tasks:
            if (self.scores_on(task) / EVALUATION).exists():
                results += Evaluation.read(self.scores_on(task) / EVALUATION).tasks
        return evaluation_of(results, str(self))

    def values(self) -> dict[str, Floats]:
        """The values of the rows of each task that has some, and of the study's pairs."""
        values: dict[str, Floats] = {}
        for task in self.tasks:
            path = self.scores_on(task) / VALUES
            if path.exists():
                values |= read_arrays(path)
        return values


def _is_damaged(folder: Path) -> bool:
    """Whether a file in a folder is not the one that SHA256SUMS names, or there is no such list."""
    try:
        return not verify_checksums(folder)
    except InputError:
        return True


def make(job: Job) -> None:
    """Makes a run, or resumes one that was stopped, and then removes its weights.

    Does nothing if the run is done. An encoder that is there is scored on the tasks that lack a
    score, or whose score is damaged, and stays.
    """
    folder = job.folder
    make_folder(folder.parent)
    with FileLock(f"{folder}.lock"):
        if job.is_done:
            return
        if job.training_is_damaged:
            _drop(folder)
            _drop(job.all_scores)
        for scores in job.damaged_scores:
            _drop(scores)
        trains = not job.is_trained or not job.has_encoder
        if trains:
            _train(job)
        encoder = _encoder(job)
        for task in job.unscored:
            _score(job, task, encoder)
        if trains:
            _finish(job)


def _encoder(job: Job) -> Encoder:
    if job.recipe is None:
        return Encoder.load(job.model, **job.encoder.model_dump())
    return Encoder.load(job.folder / "encoder")


def _score(job: Job, task: str, encoder: Encoder) -> None:
    """Writes the scores of a run's encoder on a task, or the cosines of the study's pairs."""
    with atomic_write(job.scores_on(task), new=True) as part:
        make_folder(part)
        if task == PAIRS:
            first, second = map(list, zip(*job.pairs, strict=True))
            pairs = ScoredPairs(PAIRS, "", first, second, np.empty(0), [])
            write_arrays(part / VALUES, {PAIRS: cosine_similarities(encoder, pairs)})
        elif task.startswith(f"{ENCODING}:"):
            _, _, name = task.partition(":")
            (timed,) = load_tasks([name])
            sentences = list(chain(*timed.texts().values()))
            seconds = seconds_of_encoding(encoder, sentences)
            write_arrays(part / VALUES, {task: np.array([seconds])})
        else:
            _score_on_task(job, task, encoder, part)
        names = sorted(path.name for path in part.iterdir())
        write_text(part / CHECKSUMS, checksums(part, names))


def _score_on_task(job: Job, name: str, encoder: Encoder, folder: Path) -> None:
    """Scores a run's encoder on a task; writes the result, and the rows' values, into a folder."""
    (task,) = load_tasks([name])
    if isinstance(task, TransferTask) and job.classifier_seed is not None:
        task = task.with_seed(job.classifier_seed)
    result, row_values = task.score(encoder)
    if isinstance(task, DevTask):
        write_arrays(folder / VALUES, {task.name: row_values})
    evaluation = evaluation_of([result], str(job))
    write_text(folder / EVALUATION, evaluation.model_dump_json(indent=2) + "\n")


def _finish(job: Job) -> None:
    """Writes the result of a run's training, and removes the weights that nothing needs."""
    content = {"scores": _training_scores(job.folder)}
    result = json.dumps(content, indent=2) + "\n"
    _write_checksums(job.folder, result)
    write_text(job.folder / RESULT, result)
    _drop(job.folder / "start")
    if not job.keep:
        _drop(job.folder / "encoder")


def read_tasks(names: Sequence[str]) -> list[Task]:
    """Reads the tasks of a study, which may have none."""
    if not names:
        return []
    return load_tasks(names)


def _write_checksums(folder: Path, result: str) -> None:
    """Adds the checksum of the result, which is not written yet, to those of the training."""
    path = folder / CHECKSUMS
    lines = path.read_text("utf-8").splitlines(keepends=True)
    of_training = [line for line in lines if not line.rstrip().endswith(RESULT)]
    write_text(path, "".join(of_training) + checksum_of(result, RESULT))


def _drop(path: Path) -> None:
    """Removes a file or folder; if the process is killed meanwhile, no part has its name."""
    old = path.with_name(f"{path.name}.old")
    remove(old)
    if path.exists():
        path.rename(old)
        sync(path.parent)
        remove(old)


def _train(job: Job) -> None:
    """Trains a run or resumes it. Does nothing if its training is over and its encoder there."""
    folder = job.folder
    # This reads the checkpoints.
    resumes = job.can_be_resumed
    if resumes and is_finished(folder):
        remove_checkpoints(folder)
        return
    if resumes:
        result = train(out=folder, resume=True, quiet=True)
    else:
        # The run was killed before it began, or its encoder is needed again.
        _drop(folder)
        with TemporaryDirectory() as scratch:
            path = Path(scratch, "recipe.toml")
            path.write_text(tomli_w.dumps(job.recipe or {}), "utf-8", newline="\n")
            result = train(out=folder, recipe=path, quiet=True)
    if result.stopped:
        # This ends the study, too.
        signal.raise_signal(signal.Signals[result.stopped])


def _training_scores(folder: Path) -> dict[str, float]:
    """The scores of a training from its records; see `Job.training_scores`."""
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
