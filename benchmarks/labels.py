"""Measures ways from few or many labelled texts to predictions, beside SetFit and model2vec.

    ISOTUNE_DATA=... python benchmarks/labels.py OUT.jsonl --models FOLDER
        [--sets sst5 trec mr cr subj mpqa] [--counts 8 16 64 0] [--seeds 0 1 2]
        [--encoders bert-tiny ...]
        [--ways frozen two-steps finetune setfit model2vec] [--peers PYTHON]

A cell is a set, a number of labels for each class (0: all), a seed, an encoder and a way. Each cell
that OUT.jsonl lacks is measured, and appended as a line: accuracy and macro F1 on the test rows,
and the seconds from the texts to the predictions, without loading libraries. So the same command
goes on where it was stopped. In the end, the means over the seeds are printed as a table.

No way sees a test row before it predicts. So `two-steps` always keeps the tuned encoder; a run of
the recipe `classify` may go back to the start. `two-steps-500` has 500 steps in place of the
recipe's 100. `finetune` chooses its step by a fifth of its rows; where no step is better than the
start, its labels are those of `frozen`.
The peers run in an environment of their own, whose Python is PYTHON (pip install setfit
'model2vec[train]'). model2vec distils a static model from the encoder first.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

import isotune
from isotune.data import LabelledSentence, read
from isotune.encoder.classifier_head import tasks_of
from isotune.encoder.encoder import Encoder
from isotune.engine.loop import train_steps
from isotune.engine.objectives import build_objectives
from isotune.kernels.precision import has_bfloat16
from isotune.kernels.types import Precision
from isotune.methods.classifier import fit_head
from isotune.methods.options import ClassifierOptions
from isotune.recipes import Stage, read_recipe

Rows = Sequence[LabelledSentence]
Way = Callable[[str, Rows, Sequence[str], int], Sequence[str]]
"""From an encoder, labelled rows, new texts and a seed to the labels of the new texts."""

SETS = {
    "sst5": ("sst5:train", "sst5:test"),
    "trec": ("trec:train", "trec:test"),
    "mr": ("mr:train", ""),
    "cr": ("cr:train", ""),
    "subj": ("subj:train", ""),
    "mpqa": ("mpqa:train", ""),
}
"""The training and the test rows of each set; without test rows, a quarter of all rows."""

PRECISION: Precision = "bfloat16" if has_bfloat16("cpu") else "float32"
"""That of training runs on this machine."""

PEERS = Path(__file__).with_name("labels_peers.py")


class Cell(NamedTuple):
    """What is measured once."""

    name: str
    labels: int
    seed: int
    encoder: str
    way: str


def rows_of(name: str) -> tuple[list[LabelledSentence], list[LabelledSentence]]:
    """The rows to train on and the test rows of a set."""
    columns = None
    if name == "trec":
        # The six coarse classes.
        columns = {"label": "subset"}
    train, test = SETS[name]
    rows = list(read(train, LabelledSentence, columns))
    if test:
        return rows, list(read(test, LabelledSentence, columns))
    labels = [row.label for row in rows]
    parts = train_test_split(rows, test_size=0.25, stratify=labels, random_state=0)
    return parts[0], parts[1]


def drawn(rows: Rows, count: int, seed: int) -> list[LabelledSentence]:
    """So many rows of each label; all rows if the number is 0."""
    if not count:
        return list(rows)
    generator = np.random.default_rng(seed)
    rows_of_label = defaultdict(list)
    for place in generator.permutation(len(rows)):
        rows_of_label[rows[place].label].append(rows[place])
    result = []
    for _, of_label in sorted(rows_of_label.items()):
        result += of_label[:count]
    return result


def frozen(model: str, rows: Rows, texts: Sequence[str], seed: int) -> Sequence[str]:
    """The method `classifier`."""
    return predicted(Encoder.load(model), rows, texts)


def two_steps(
    model: str, rows: Rows, texts: Sequence[str], seed: int, steps: int | None = None
) -> Sequence[str]:
    """The stages of the recipe `classify`, without going back to the start."""
    table = dict(read_recipe("classify")["stages"][0])
    if steps is not None:
        table["steps"] = steps
    table["classes"] = sorted({row.label for row in rows})
    table["batch_size"] = min(table["batch_size"], len(rows))
    stage = Stage.model_validate(table)
    encoder = Encoder.load(model, precision=PRECISION)
    options = stage.training.for_width(encoder.backbone.dimension)
    objectives = build_objectives(stage, encoder, seed)
    for update in train_steps(encoder, objectives, rows, options, seed):
        update.check(options)
    return predicted(encoder.eval(), rows, texts)


def predicted(encoder: Encoder, rows: Rows, texts: Sequence[str]) -> Sequence[str]:
    """The labels of new texts, by a logistic regression on the vectors of labelled rows."""
    options = ClassifierOptions(classes=tuple(sorted({row.label for row in rows})))
    head = fit_head(rows, encoder.encode([row.sentence for row in rows]), options)
    return [str(label) for label in head.predictions(head.outputs(encoder.encode(texts)))]


def finetune(model: str, rows: Rows, texts: Sequence[str], seed: int) -> Sequence[str]:
    """The method `finetune-sentence`: three epochs or 100 steps."""
    labels = [row.label for row in rows]
    train, dev = train_test_split(rows, test_size=0.2, stratify=labels, random_state=seed)
    batch_size = min(32, len(train))
    steps = max(100, 3 * len(train) // batch_size)
    with tempfile.TemporaryDirectory() as folder:
        dev_file = Path(folder, "dev.jsonl")
        lines = [json.dumps(row._asdict()) + "\n" for row in dev]
        dev_file.write_text("".join(lines))
        result = isotune.train(
            rows=train,
            out=Path(folder, "run"),
            method="finetune-sentence",
            model=model,
            classes=sorted(set(labels)),
            dev_data=[str(dev_file)],
            dev="none",
            tasks=["stsb-open"],
            batch_size=batch_size,
            steps=steps,
            eval_every=steps // 5,
            rate_width=768,
            seed=seed,
            quiet=True,
        )
        if not tasks_of(result.folder / "encoder"):
            # The run has kept its start, which has no classifier.
            return frozen(model, rows, texts, seed)
        return [str(label) for label in result.classifier.predict(texts)]


WAYS: dict[str, Way] = {
    "frozen": frozen,
    "two-steps": two_steps,
    "two-steps-500": partial(two_steps, steps=500),
    "finetune": finetune,
}


def by_peer(way: str, python: str, cell: Cell, model: str, rows: Rows, texts: Sequence[str]) -> Any:
    """The labels that a peer predicts, and its seconds."""
    given = {
        "model": model,
        "seed": cell.seed,
        "texts": [row.sentence for row in rows],
        "labels": [row.label for row in rows],
        "new": list(texts),
    }
    run = subprocess.run(
        [python, str(PEERS), way], input=json.dumps(given), text=True, capture_output=True
    )
    if run.returncode:
        sys.exit(f"{way}: {run.stderr[-2000:]}")
    answer = json.loads(run.stdout.splitlines()[-1])
    return answer["labels"], answer["seconds"]


def measured(cell: Cell, models: Path, python: str) -> dict[str, Any]:
    """The scores of a cell."""
    train, test = rows_of(cell.name)
    rows = drawn(train, cell.labels, cell.seed)
    texts = [row.sentence for row in test]
    right = [row.label for row in test]
    model = str(models / cell.encoder)
    if cell.way in WAYS:
        began = time.perf_counter()
        labels = WAYS[cell.way](model, rows, texts, cell.seed)
        seconds = time.perf_counter() - began
    else:
        labels, seconds = by_peer(cell.way, python, cell, model, rows, texts)
    return {
        **cell._asdict(),
        "accuracy": float(np.mean(np.array(labels) == np.array(right))),
        "macro_f1": float(f1_score(right, labels, average="macro", zero_division=0.0)),
        "seconds": seconds,
    }


def table(cells: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The means over the seeds, as lines of Markdown."""
    yield "| set | labels a class | encoder | way | seeds | accuracy | macro F1 | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    groups = defaultdict(list)
    for cell in cells:
        groups[cell["name"], cell["labels"], cell["encoder"], cell["way"]].append(cell)
    for (name, count, encoder, way), group in sorted(groups.items()):
        accuracy = 100 * fmean(cell["accuracy"] for cell in group)
        macro_f1 = 100 * fmean(cell["macro_f1"] for cell in group)
        seconds = fmean(cell["seconds"] for cell in group)
        start = f"| {name} | {count or 'all'} | {encoder} | {way} | {len(group)} |"
        yield f"{start} {accuracy:.1f} | {macro_f1:.1f} | {seconds:.1f} |"


def main() -> None:
    """Measures the cells that are missing, and prints the table."""
    isotune.tune_process()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=Path, required=True, help="the folder of the encoders")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--counts", nargs="+", type=int, default=[8, 16, 64, 0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--encoders", nargs="+", default=["bert-tiny", "all-minilm", "all-mpnet"])
    parser.add_argument("--ways", nargs="+", default=["frozen", "two-steps", "finetune"])
    parser.add_argument("--peers", default=sys.executable, help="the Python of the peers")
    options = parser.parse_args()
    isotune.tune_process()
    cells = []
    if options.out.exists():
        cells = [json.loads(line) for line in options.out.read_text().splitlines()]
    done = {Cell(*(cell[field] for field in Cell._fields)) for cell in cells}
    wanted = product(options.sets, options.counts, options.seeds, options.encoders, options.ways)
    for values in wanted:
        cell = Cell(*values)
        if cell in done:
            continue
        cells.append(measured(cell, options.models, options.peers))
        with options.out.open("a") as file:
            file.write(json.dumps(cells[-1]) + "\n")
    print("\n".join(table(cells)))


if __name__ == "__main__":
    main()
