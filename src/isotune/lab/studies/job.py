"""One run of a study: trained unless it is there already, evaluated on the study's tasks, and kept as result.json.

The result is written last, after the checksums of the files that a study reads: a run is done if its files are those.

While a run is made, the lock file beside its folder is held, so two studies never make the same run at the same time.

`Processes` makes each run in a process of its own, `python -m isotune.lab.studies.job`. The first line of its standard
input is the `Job` as JSON, at whose end the process ends. Its exit code is 0 if the run is done. What it prints is in
RUNS/KEY.log, and the last line there says why the run failed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Self

import numpy as np
import tomli_w
import torch
from filelock import FileLock
from pydantic import BaseModel, ConfigDict

import isotune
from isotune.cluster import Tasks, connect
from isotune.data import ScoredPairs
from isotune.encoder import Encoder, EncoderOptions
from isotune.errors import InputError
from isotune.evaluation import (
    DevTask,
    RunEvaluation,
    SentenceEncoder,
    SharedWords,
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
from isotune.kernels import DEVICE, default_device
from isotune.lab.studies.study import WORDS
from isotune.plugins import load_plugin
from isotune.report import group_by_stage, read_records
from isotune.training import is_finished, remove_checkpoints, train

RESULT = "result.json"
VALUES = "study-values.npz"  # of each task: the cosines of its pairs, or the measures of its queries
PAIRS = "pairs"  # the cosines of the study's pairs among the values of its tasks

COMMAND = (sys.executable, "-m", "isotune.lab.studies.job")
MOST = 4  # processes at a time without a GPU: each holds a model
PAUSE = 0.05  # seconds between two looks at the processes


class Job(BaseModel):
    """What a process needs to know to make a run."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    folder: Path  # the run's folder
    recipe: dict[str, Any] | None  # its table, model included; None for an untrained model
    model: str  # the untrained model
    encoder: EncoderOptions  # how vectors are taken from an untrained model
    tasks: tuple[str, ...]  # what the run is evaluated on
    pairs: tuple[tuple[str, str], ...] = ()  # sentences whose cosines are needed
    classifier_seed: int | None = None  # of SentEval's classifiers; SentEval's own if None
    keep: bool  # whether the trained encoder is needed later
    plugins: tuple[Path, ...] = ()  # files to load first

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

    @property
    def log(self) -> Path:
        """What the process of the run printed."""
        return self.folder.with_name(f"{self.folder.name}.log")


def make(job: Job) -> None:
    """Makes a run, or resumes one that was stopped, and then removes its weights. Does nothing if the run is done."""
    folder = job.folder
    make_folder(folder.parent)
    with FileLock(f"{folder}.lock"):
        if job.is_done:
            return
        if job.is_made or not (folder / "recipe.toml").exists():
            _drop(folder)  # it is damaged, was made without the encoder that is needed now, or killed before it began
        make_folder(folder)
        if job.recipe is None:
            encoder: SentenceEncoder = load_untrained(job.model, job.encoder)
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
            values[PAIRS] = cosine_similarities(encoder, ScoredPairs(PAIRS, "", first, second, np.empty(0), []))
        write_arrays(folder / VALUES, values)
        scores = _training_scores(folder) if job.recipe else {}
        result = json.dumps({"scores": scores, "evaluation": evaluation.model_dump(mode="json")}, indent=2) + "\n"
        sums = folder / CHECKSUMS
        lines = sums.read_text("utf-8").splitlines(True) if sums.exists() else []
        of_training = "".join(line for line in lines if not line.rstrip().endswith((RESULT, VALUES)))
        write_text(sums, of_training + checksum_of(result, RESULT) + checksums(folder, (VALUES,)))
        write_text(folder / RESULT, result)
        for path in (folder / "start", *(() if job.keep else (folder / "encoder",))):
            _drop(path)


def load_untrained(model: str, options: EncoderOptions) -> SentenceEncoder:
    """An untrained model as an encoder: `Encoder` with these options, or the baseline that `WORDS` names."""
    return SharedWords() if model == WORDS else Encoder.load(model, **options.model_dump())


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
        raise InputError(f"{result.stopped} stopped it")


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
        scores |= {"test": fmean(tested.values()), **{f"test:{part}": value for part, value in tested.items()}}
    seconds = sum(record["seconds"] for record in records["train"])  # of the steps, without evaluations
    return scores | ({"seconds": seconds} if records["train"] else {})


class Processes:
    """The processes of a study. All of them are killed when the `with` block ends."""

    def __init__(self, count: int | None = None, threads: int | None = None) -> None:
        """Starts nothing yet. Without a count, it is one a GPU, or else one a core, and at most `MOST`."""
        gpus = {"cuda": torch.cuda.device_count(), "mps": 1, "cpu": 0}[default_device()]
        cores = os.cpu_count() or 1
        self.count = count or gpus or min(cores, MOST)
        self.threads = threads or max(1, cores // self.count)  # of each process
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
        self._devices = [visible[i % len(visible)] for i in range(self.count)]  # one for each process that may start
        self._running: dict[subprocess.Popen[bytes], tuple[Job, str]] = {}  # with the device of each

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._running:
            process.kill()
        for process in self._running:
            with process:  # waits, and closes the pipe
                pass

    @property
    def may_start(self) -> bool:
        """Whether fewer processes run than may."""
        return bool(self._devices)

    def start(self, job: Job) -> None:
        """Starts to make a run."""
        device = self._devices.pop(0)
        limits = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
        with job.log.open("ab") as log:
            process = subprocess.Popen(
                COMMAND,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **limits, **({"CUDA_VISIBLE_DEVICES": device, DEVICE: "cuda"} if device else {})},
                start_new_session=True,  # keeps a terminal's Ctrl-C away
            )
        self._running[process] = job, device
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the process has died; `wait` says so
            process.stdin.write(job.model_dump_json().encode() + b"\n")

    def wait(self) -> tuple[Job, str]:
        """Waits until a run ends; gives the run, and the reason of its failure or ""."""
        while not (ended := [process for process in self._running if process.poll() is not None]):
            time.sleep(PAUSE)
        with ended[0] as process:
            job, device = self._running.pop(process)
        self._devices.append(device)
        return job, _problem(job.log, process.returncode)


class RayRuns(Tasks[Job, str]):
    """The same on a Ray cluster, whose machines share the runs' folder."""

    def __init__(self, count: int | None = None, threads: int | None = None) -> None:
        """Connects to the cluster. Without a count, it is one a GPU, or else as many as have their threads."""
        cpus, gpus = connect()
        self.threads = threads or 1
        self.count = count or gpus or max(1, cpus // self.threads)
        super().__init__(partial(_make_there, os.getcwd(), self.threads), self.threads, min(gpus, 1))

    @property
    def may_start(self) -> bool:
        """Whether fewer runs are made than may."""
        return len(self.running) < self.count


def _make_there(folder: str, threads: int, job: Job) -> str:
    try:
        os.chdir(folder)
        with Processes(1, threads) as processes:
            processes.start(job)
            return processes.wait()[1]
    except OSError as error:
        return f"{error.filename}: a machine of the cluster can't use it ({error.strerror})"


def _problem(log: Path, code: int) -> str:
    """Why a run failed, by its process's log and exit code; "" if it did not. The log stays only if it did."""
    if code == 0:
        log.unlink(missing_ok=True)  # another study may have made the same run
        return ""
    if code > 0:
        return log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
    name = signal.Signals(-code).name
    hint = ", perhaps because memory ran out: use fewer processes" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{hint}; {log} may say more"


def main() -> None:
    """Makes the run that the first line of standard input describes; ends at once when standard input ends."""
    line = sys.stdin.buffer.readline()
    Thread(target=_end_with_input, daemon=True).start()
    isotune.tune_process()
    try:
        for plugin in json.loads(line)["plugins"]:  # which may register what the rest of the job names
            load_plugin(plugin)
        make(Job.model_validate_json(line))
    except (InputError, OSError) as error:
        sys.exit(str(error))  # with code 1


def _end_with_input() -> None:
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
