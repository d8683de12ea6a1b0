"""A process that makes runs: `python -m isotune.lab.studies.worker`, driven by lines of JSON on its standard input.

A line is a `Job`, the answer a line {"error": ..., "stopped": ...} on standard output. The end of the input, which
comes too when the process that drives it dies, ends it at once. A run's folder is locked while it is made, so that two
studies that share their runs never make the same one side by side.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np
import tomli_w
from pydantic import BaseModel

from isotune.data import Sentence, read
from isotune.encoder.encoder import Encoder
from isotune.encoder.load import load_encoder
from isotune.encoder.options import EncoderOptions
from isotune.encoder.word_vectors import WordVectors
from isotune.errors import InputError
from isotune.evaluation import RunEvaluation, STSTask, Task, cosine_similarities, evaluate_on, load_tasks, score
from isotune.evaluation.results import STSResult
from isotune.evaluation.vectors import SentenceEncoder
from isotune.files import replacing, write_text
from isotune.kernels.memory import tune_process
from isotune.report.stages import group_by_stage, read_records
from isotune.training import train
from isotune.training.run_folder import is_finished

RESULT = "result.json"
COSINES = "study-cosines.npz"
SPEED_SENTENCES = 500  # that sentences_per_second is measured on; of the bundled training text


class Job(BaseModel):
    """What a run needs.

    Attributes:
        folder: the run's.
        recipe: its table, with the model; None for a model as it is.
        model: the model as it is.
        encoder: how that one's vectors are taken.
        tasks: what it is evaluated on.
        keep: whether the encoder is needed later.
    """

    folder: Path
    recipe: dict[str, Any] | None
    model: str
    encoder: EncoderOptions
    tasks: tuple[str, ...]
    keep: bool


class Stopped(Exception):
    """A signal came; the run can be gone on with."""


def is_done(folder: Path, keep: bool) -> bool:
    """Whether the run is there, with its encoder if that is needed."""
    return (folder / RESULT).exists() and (not keep or (folder / "encoder").exists())


def make(job: Job) -> None:
    """Makes a run that isn't there, or goes on with one that was begun; then its weights are removed.

    Raises:
        InputError: it can't be made.
        Stopped: a signal ended it early.
    """
    folder = job.folder
    with _locked(folder):
        if is_done(folder, job.keep):
            return
        if (folder / RESULT).exists() or not (folder / "recipe.toml").exists():
            _remove(folder, "*")  # made without the encoder that is needed now, or killed before it began
        if job.recipe is None:
            encoder = load_model(job.model, job.encoder)
        else:
            _train(folder, job.recipe)
            encoder = load_encoder(folder / "encoder")
        tasks = [_Kept(task) if isinstance(task, STSTask) else task for task in read_tasks(job.tasks)]
        evaluation = evaluate_on(tasks, encoder, job.model or folder.name)
        cosines = {task.name: task.cosines for task in tasks if isinstance(task, _Kept)}
        with replacing(folder / COSINES) as part, part.open("wb") as file:
            np.savez_compressed(file, **cosines)  # type: ignore[arg-type]  # it takes them for its own option
        scores = {"sentences_per_second": _speed(encoder), **(_of_training(folder) if job.recipe else {})}
        found = {"scores": scores, "evaluation": evaluation.model_dump(mode="json")}
        write_text(folder / RESULT, json.dumps(found, indent=2) + "\n")
        _remove(folder, "last.safetensors", "best-*.safetensors", "start", *([] if job.keep else ["encoder"]))


def load_model(model: str, options: EncoderOptions) -> Encoder | WordVectors:
    """A model as it is."""
    given = options.model_dump(exclude_none=True)
    return Encoder.load(model, **given) if given else load_encoder(model)


@cache
def read_tasks(names: tuple[str, ...]) -> list[Task]:
    """A study's tasks, which are none where it names none; read once a process."""
    return load_tasks(names) if names else []


class _Kept:
    """An STS task that keeps the cosines that it was scored by."""

    def __init__(self, task: STSTask) -> None:
        self.name, self.pairs = task.name, task.pairs

    def score(self, encoder: SentenceEncoder) -> STSResult:
        self.cosines = cosine_similarities(encoder, self.pairs)
        return score(self.pairs, self.cosines)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Makes the folder, and waits until no other process is at it."""
    folder.mkdir(parents=True, exist_ok=True)
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def _remove(folder: Path, *patterns: str) -> None:
    for path in [path for pattern in patterns for path in folder.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _train(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Trains, from where it was if it was begun; does nothing if it was finished."""
    if (folder / "recipe.toml").exists():
        if is_finished(folder):
            return
        result = train(out=folder, resume=True, quiet=True)
    else:
        with TemporaryDirectory() as temporary:
            path = Path(temporary, "recipe.toml")
            path.write_text(tomli_w.dumps(recipe), "utf-8")
            result = train(out=folder, recipe=path, quiet=True)
    if result.stopped:
        raise Stopped


def _of_training(folder: Path) -> dict[str, float]:
    """What a study tells of a training: see `RUN_SCORES`."""
    records = read_records(folder / "metrics.jsonl")
    found = group_by_stage(records, ())
    evaluation = RunEvaluation.model_validate_json((folder / "evaluation.json").read_text("utf-8"))
    scores: dict[str, float] = {"kept_step": evaluation.selected_step, "steps": max(stage.steps[1] for stage in found)}
    if scored := [stage for stage in found if stage.dev]:
        kept = scored[-1].kept
        scores |= {"dev": kept["score"], **{f"dev:{part}": kept[part] for part in scored[-1].parts}}
    seconds = sum(record["seconds"] for record in records["train"])  # of the steps, without evaluations
    return scores | ({"seconds": seconds} if records["train"] else {})


def _speed(encoder: SentenceEncoder) -> float:
    """Sentences that it encodes in a second."""
    sentences = [row.sentence for row in islice(read("stsb-open:train", Sentence), SPEED_SENTENCES)]
    encoder.encode(sentences[: SPEED_SENTENCES // 10])  # what is done once
    start = time.perf_counter()
    encoder.encode(sentences)
    return len(sentences) / (time.perf_counter() - start)


def main() -> None:
    """Makes the runs asked for until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is for the log
    tune_process()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the study, which stops its processes by SIGTERM
    lines: SimpleQueue[str] = SimpleQueue()
    Thread(target=_receive, args=(lines,), daemon=True).start()
    while True:
        job = Job.model_validate(json.loads(lines.get()))
        answer: dict[str, str | bool] = {}
        try:
            make(job)
        except Stopped:
            answer = {"stopped": True}
        except (InputError, OSError) as error:
            answer = {"error": str(error)}
        except Exception as error:  # whatever it is, the other runs go on
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def _receive(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
