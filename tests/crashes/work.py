"""Work that can be killed: how to go on with it in a folder, and what has to be there in the
end."""

import json
import os
import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import tomli_w

import isotune
from isotune.files import write_text
from isotune.lab.studies import run_study
from isotune.lab.studies.page import Results
from isotune.methods import self_guided
from isotune.report.stages import read_records
from isotune.training import run as training_run
from isotune.training.run_folder import LAST, is_finished, load_tensors, remove_checkpoints
from isotune.use.bulk.folder import encode_files
from isotune.use.search import Index, read_documents, store
from isotune.use.search import index as index_module
from tests.conftest import WORDS, make_tiny_model
from tests.lab.studies.conftest import small_study

TIMES = {"seconds", "sentences_per_second"}  # what differs between two equal runs


@dataclass(frozen=True)
class Work:
    """What `kills` starts, kills and starts again.

    Attributes:
        go_on: begins the work in a folder, or goes on with it; does nothing if it is done.
        result: what the folder holds in the end, without times.
    """

    go_on: Callable[[Path], object]
    result: Callable[[Path], dict[str, object]]


@dataclass(frozen=True)
class Inputs:
    """A tiny model, sixty sentences, scored pairs, labelled pairs, and labelled sentences."""

    model: str
    text: str
    pairs: str
    labelled: str
    classified: str


def make_inputs(folder: Path) -> Inputs:
    """Writes the inputs of all works into a new folder."""
    folder.mkdir()
    make_tiny_model(folder / "model")
    chance = random.Random(0)
    sentences = [
        " ".join(chance.choices(WORDS, k=1 + k % 12)) + f" {WORDS[k % 20]}" for k in range(60)
    ]
    pairs = list(zip(sentences, sentences[20:40], strict=False))
    lines = {
        "text.txt": sentences,
        "pairs.tsv": [
            "sentence1\tsentence2\tscore",
            *(f"{a}\t{b}\t{k % 6}" for k, (a, b) in enumerate(pairs)),
        ],
        "labelled.tsv": [
            "sentence1\tsentence2\tlabel",
            *(f"{a}\t{b}\t{k % 2}" for k, (a, b) in enumerate(pairs)),
        ],
        "classified.tsv": [
            "sentence\tlabel",
            *(f"{sentence}\t{k % 2}" for k, sentence in enumerate(sentences)),
        ],
    }
    for name, content in lines.items():
        (folder / name).write_text("\n".join(content) + "\n")
    return Inputs(*(str(folder / name) for name in ("model", *lines)))


def training(
    stages: list[dict[str, Any]],
    inputs: Inputs,
    report: bool = False,
    processes: int = 1,
    **table: Any,
) -> Work:
    """A run of some stages, made by one process or several."""
    stages = [
        {"batch_size": 8, "steps": 6, "eval_every": 2, "learning_rate": 1e-3} | stage
        for stage in stages
    ]
    table = {
        "data": [inputs.text],
        "model": inputs.model,
        "dev": inputs.pairs,
        "tasks": [inputs.pairs],
    } | table
    table["keep_checkpoints"] = not report  # to compare them
    table = {key: value for key, value in table.items() if value is not None}

    def go_on(folder: Path) -> None:
        self_guided.PROJECTION_WIDTH = 32
        if not report:
            training_run.write_report = _short_report  # drawing takes most of a short run's time
        folder.mkdir(exist_ok=True)
        write_text(folder / "recipe.toml", tomli_w.dumps({**table, "stages": stages}))
        run = folder / "run"
        if processes > 1:
            _become_several(processes)
        if is_finished(run):
            remove_checkpoints(run)
            return
        if (run / "recipe.toml").exists():
            isotune.train(out=run, resume=True, quiet=True)
        else:
            isotune.train(out=run, recipe=folder / "recipe.toml", quiet=True)

    return Work(go_on, lambda folder: run_result(folder / "run"))


def _short_report(folder: Path) -> Path:
    write_text(folder / "report.html", "<html></html>\n")
    return folder / "report.html"


def _become_several(processes: int) -> None:
    """Forks the other processes of the run."""
    port = str(random.SystemRandom().randrange(20_000, 60_000))
    os.environ |= {
        "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "RANK": "0",
    }
    for rank in range(1, processes):
        if os.fork() == 0:
            os.environ["RANK"] = str(rank)
            return


def run_result(run: Path) -> dict[str, object]:
    """The weights, the checkpoint, the records and the scores of a run."""
    result: dict[str, object] = {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in (
            *run.glob("best-*"),
            *(run / "encoder").rglob("*"),
            *run.glob("predictions.npz"),
        )
        if path.is_file() and path.name != "README.md"
    }
    if (run / LAST).exists():
        tensors, progress = load_tensors(run / LAST)
        del progress["metrics_bytes"]  # which differs with the digits of times
        result["checkpoint"] = (
            {name: tensor.numpy().tobytes() for name, tensor in tensors.items()},
            progress,
        )
    of_kinds = {
        kind: [
            {key: value for key, value in record.items() if key not in TIMES} for record in records
        ]
        for kind, records in read_records(run / "metrics.jsonl").items()
    }
    evaluation = json.loads((run / "evaluation.json").read_text())
    result |= {f"records of {kind}": records for kind, records in of_kinds.items()}
    result["scores"] = (
        [evaluation[when]["tasks"] for when in ("before", "after")],
        evaluation["selected_step"],
    )
    result["names"] = sorted(
        path.name for path in run.iterdir() if path.name not in ("lock", "holder")
    )
    return result


def study(inputs: Inputs) -> Work:
    """A study of two arms and two seeds."""

    def go_on(folder: Path) -> None:
        training_run.write_report = _short_report
        run_study.QUICK_TASKS = (inputs.pairs,)
        folder.mkdir(exist_ok=True)
        write_text(folder / "study.toml", tomli_w.dumps(small_study(inputs.text, inputs.pairs)))
        run_study.run_study(folder / "study.toml", folder / "study", model=inputs.model, quiet=True)

    return Work(go_on, lambda folder: study_result(folder / "study"))


def study_result(folder: Path) -> dict[str, object]:
    """The scores of each run of a study."""
    made = Results.read(folder / "study.json").runs
    return {
        run.run: {name: value for name, value in run.values.items() if name not in TIMES}
        for run in made
    }


def encoding(inputs: Inputs) -> Work:
    """The encoding of six files into a folder of vectors."""
    lines = Path(inputs.text).read_text().splitlines()
    texts = Path(inputs.text).with_name("texts")
    texts.mkdir(exist_ok=True)
    for part in range(6):
        (texts / f"{part}.txt").write_text("\n".join(lines[10 * part :][:10]) + "\n")

    def go_on(folder: Path) -> None:
        encode_files(inputs.model, [f"{texts}/*.txt"], folder / "vectors")

    def result(folder: Path) -> object:
        files = (
            path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part"
        )  # a hidden leftover
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    return Work(go_on, result)


def encoding_by_two(inputs: Inputs) -> Work:
    """The same encoding by two processes at a time, which share the folder."""
    alone = encoding(inputs)

    def go_on(folder: Path) -> None:
        other = os.fork()
        alone.go_on(folder)
        if other == 0:
            os._exit(0)
        assert os.waitpid(other, 0)[1] in (
            0,
            signal.SIGKILL,
        )  # this process has done what a killed one left

    return Work(go_on, alone.result)


def indexing(inputs: Inputs) -> Work:
    """An index of sixty sentences."""
    import_module(
        "lancedb"
    )  # once, and not in each forked process; there it starts its threads anew

    def go_on(folder: Path) -> None:
        index_module.PART, store.FRAGMENTS = 8, 3
        changed = folder / "changed.txt"
        folder.mkdir(exist_ok=True)
        write_text(changed, Path(inputs.text).read_text().replace("dog", "cat") + "one more\n")
        use = Index.open if (folder / "index" / "index.json").exists() else Index.create
        use(folder / "index", inputs.model).add(read_documents(str(changed)))

    def result(folder: Path) -> dict[str, object]:
        index = Index.open(folder / "index", inputs.model)
        return {
            hit.id.rpartition(":")[2]: (hit.text, hit.cosine) for hit in index.search("a dog", 500)
        }

    return Work(go_on, result)


def finetune(inputs: Inputs) -> Work:
    """Fine-tuning on labelled pairs, whose dev data choose the best step and score it."""
    stage = {
        "method": "finetune-pair",
        "classes": ["0", "1"],
        "dev_data": [inputs.labelled],
        "dev_share": 0.5,
    }
    return training([stage], inputs, data=[inputs.labelled])


def multitask(inputs: Inputs) -> Work:
    """Three tasks in every step."""
    sources = {
        "sentiment": inputs.classified,
        "paraphrase": inputs.labelled,
        "similarity": inputs.pairs,
    }
    stage: dict[str, Any] = {
        "method": "multitask",
        "sentiment_classes": ["0", "1"],
        "projection": 16,
    }
    for task, source in sources.items():
        stage |= {f"{task}_{part}": [source] for part in ("data", "dev", "test")} | {
            f"{task}_batch_size": 4
        }
    return training([stage], inputs, data=None)


FLOW = [{"method": "mirror", "spans": "tokens", "symmetric": False}, {"method": "bert-cf"}]

WORKS: Mapping[str, Callable[[Inputs], Work]] = {
    "simcse": partial(training, [{"method": "simcse"}]),
    "consert": partial(training, [{"method": "consert"}]),
    "consert, sif": partial(training, [{"method": "consert"}, {"method": "sif"}]),
    "self-guided": partial(training, [{"method": "self-guided"}]),
    "simcse, whitening": partial(training, [{"method": "simcse"}, {"method": "whitening"}]),
    "mirror, bert-cf": partial(training, FLOW),
    "flow": partial(training, [{"method": "flow"}]),
    "clsr": lambda inputs: training(
        [{"method": "clsr", "min_score": 3.0}], inputs, data=[inputs.pairs]
    ),
    "sncse": partial(training, [{"method": "sncse", "parser": "words"}]),
    "mlm, the last step": partial(training, [{"method": "mlm"}], dev="none"),
    "finetune-pair": finetune,
    "multitask": multitask,
    "report": partial(training, [{"method": "simcse", "steps": 2}], report=True),
    "two processes": partial(training, [{"method": "simcse"}], processes=2),
    "study": study,
    "encoding": encoding,
    "encoding by two processes": encoding_by_two,
    "indexing": indexing,
}
