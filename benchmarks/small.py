"""Measures what smaller vectors lose: fewer features, bytes and bits, in search and similarity.

    ISOTUNE_DATA=... python benchmarks/small.py scores OUT MODEL... --texts FOLDER
        [--names covid squad] [--seeds 0 1 2] [--trained]

FOLDER has a folder for each text, with texts.jsonl (`text`), train.jsonl and test.jsonl (`question`
and `passage`), as docs/results.md makes them; "stories" is the text of docs/stories, and "sts" the
bundled pairs, whose text is stsb-open:train. The questions of test.jsonl have to find their
passages (nDCG@10 x 100); of the pairs the score is Spearman x 100. Each encoder keeps all, a half,
a quarter and an eighth of its features: the first ones ("cut"), or the leading directions of the
text ("pca"). With --trained, encoders are also tuned on the questions (recipe adapt-pairs; adapt on
"sts"), and then cut ("trained"), or tuned at all these widths ("matryoshka"). Then a table has all
features as float32, int8 and binary, alone and rescored by float32.

    ISOTUNE_DATA=... python benchmarks/small.py index OUT MODEL [--rows 100000]

makes an index of sentences of Wikipedia, and searches it by float32, int8 and binary vectors, and
by a quarter of the features: bytes on the disk, the most memory of a process that searches, and the
time of a search (median of 50).

    python benchmarks/small.py queries OUT LARGE SMALL... --texts FOLDER [--names covid squad]

has the passages encoded by one encoder, and the questions by others that have learned its vectors
(recipe query-encoder): nDCG@10, the share of what the large encoder has, and questions a second,
one at a time (median of 50).

All print tables in Markdown. Each number is kept in OUT, so the same command goes on.
"""

import argparse
import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

import isotune
from isotune.data import Sentence, read, read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.evaluation import RetrievalTask, load_tasks
from isotune.methods.pca import leading_directions
from isotune.use.quantization import Ranges, bits_of
from isotune.use.search import Document, Index

Array = NDArray[Any]
STORIES = Path(__file__).parents[1] / "docs" / "stories"
STS = "sts"
SHARES = (1, 2, 4, 8)
# Texts of which ranges and directions are computed.
SAMPLE = 10_000
KINDS = ("int8", "binary")
# Rows that are compared again by float32, for the ten that are asked for: few, because a text may
# have two hundred passages.
RESCORED = 40
DEPTH = 100
QUERIES = 50


class Text:
    """A text: what directions are computed of, what is trained on, and what is scored."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        if name == "stories":
            _write_stories(self.folder)

    @property
    def sentences(self) -> list[str]:
        """The texts, without the questions."""
        source = "stsb-open:train"
        columns = None
        if self.name != STS:
            source = str(self.folder / "texts.jsonl")
            columns = {"sentence": "text"}
        rows = read([source], Sentence, columns)
        return [row.sentence for row in islice(rows, SAMPLE)]

    @property
    def task(self) -> RetrievalTask:
        """The questions and passages that judge."""
        (task,) = load_tasks([f"retrieval:{self.folder / 'test.jsonl'},question,passage"])
        assert isinstance(task, RetrievalTask)
        return task

    def sides(self) -> tuple[Sequence[str], Sequence[str]]:
        """The texts whose vectors are compared: questions and passages, or pairs."""
        if self.name == STS:
            pairs = read_scored_pairs("stsb-open:test")
            return pairs.sentence1, pairs.sentence2
        return self.task.queries, self.task.documents

    def score(self, cosines: Callable[[], Array]) -> float:
        """The score x 100 of similarities: [N] of pairs, or [queries, passages]."""
        if self.name == STS:
            gold = read_scored_pairs("stsb-open:test").scores
            return 100 * float(spearmanr(cosines(), gold).statistic)
        order = np.argsort(-cosines(), axis=1, kind="stable")[:, :DEPTH]
        result, _ = self.task.result_of(list(order))
        return 100 * result.measures["ndcg@10"]


def _write_stories(folder: Path) -> None:
    """The passages and questions of docs/stories; the questions of every second article train."""
    if (folder / "test.jsonl").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (STORIES / "passages.tsv").open(newline="") as file:
        passages = {row["id"]: row for row in csv.DictReader(file, delimiter="\t")}
    titles = list(dict.fromkeys(passage["title"] for passage in passages.values()))
    parts: dict[str, list[dict[str, str]]] = {"train": [], "test": []}
    with (STORIES / "passages-questions.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            passage = passages[row["id"]]
            part = ("train", "test")[titles.index(passage["title"]) % 2]
            parts[part].append({"question": row["question"], "passage": passage["text"]})
    parts["texts"] = [{"text": passage["text"]} for passage in passages.values()]
    for name, rows in parts.items():
        lines = [json.dumps(row) + "\n" for row in rows]
        (folder / f"{name}.jsonl").write_text("".join(lines))


def unit(vectors: Array) -> Array:
    """Vectors scaled to length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)


class Encoded:
    """The vectors of a text by an encoder, which are kept in a file."""

    def __init__(self, text: Text, encoder: str | Path, file: Path) -> None:
        if not file.exists():
            model = Encoder.load(encoder)
            first, second = text.sides()
            arrays = {
                "sample": model.encode_document(text.sentences, normalize=True),
                "first": model.encode_query(first, normalize=True),
                "second": model.encode_document(second, normalize=True),
            }
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savez(file.with_suffix(".part.npz"), **arrays)
            os.replace(file.with_suffix(".part.npz"), file)
        arrays = np.load(file)
        self.text = text
        self.sample: Array = arrays["sample"]
        self.first: Array = arrays["first"]
        self.second: Array = arrays["second"]

    def compared(self, similar: Callable[[Array, Array], Array]) -> float:
        """The score of the text, by the similarity [n, m] of vectors [n, d] and [m, d]."""
        if self.text.name != STS:
            return self.text.score(lambda: similar(self.first, self.second))
        pairs = zip(self.first, self.second, strict=True)
        return self.text.score(
            lambda: np.array([similar(one[None], other[None])[0, 0] for one, other in pairs])
        )

    def cut(self, dimensions: int) -> float:
        """The score of the first features."""
        return self.compared(lambda a, b: unit(a[:, :dimensions]) @ unit(b[:, :dimensions]).T)

    def directions(self, dimensions: int) -> float:
        """The score of the leading directions of the text."""
        head = leading_directions(torch.from_numpy(self.sample), dimensions)
        turn = head.linear.weight.detach().numpy()
        return self.compared(lambda a, b: unit(a @ turn.T) @ unit(b @ turn.T).T)

    def small(self, kind: str, rescored: bool) -> float:
        """The score of vectors as bytes or bits, alone or compared again by float32."""
        ranges = Ranges.of(self.sample, "")

        def similar(a: Array, b: Array) -> Array:
            if kind == "int8":
                near = ranges.bytes_of(a).astype(np.float32)
                near = unit(near) @ unit(ranges.bytes_of(b).astype(np.float32)).T
            else:
                ones = np.unpackbits(bits_of(a), axis=1).astype(np.float32)
                others = np.unpackbits(bits_of(b), axis=1).astype(np.float32)
                near = ones @ others.T + (1 - ones) @ (1 - others).T
            if not rescored:
                return near
            exact = unit(a) @ unit(b).T
            order = np.argsort(-near, axis=1, kind="stable")
            found = order[:, :RESCORED]
            # What was not found stands behind all that was.
            whole = near - near.max() - 2
            np.put_along_axis(whole, found, np.take_along_axis(exact, found, 1), 1)
            return whole

        return self.compared(similar)


def trained(text: Text, model: str, seed: int, widths: Sequence[int], run: Path) -> Path:
    """The encoder of a run, which is made if it is missing."""
    if not (run / "encoder").exists():
        shutil.rmtree(run, ignore_errors=True)
        options: dict[str, Any] = {"recipe": "adapt"}
        source = "stsb-open:train"
        if text.name != STS:
            source = str(text.folder / "train.jsonl")
            options = {"pairs": ("question", "passage")}
            options["recipe"] = "adapt-pairs"
        if widths:
            options["matryoshka"] = widths
        isotune.train(
            source, model=model, seed=seed, out=run, tasks=["stsb-open"], quiet=True, **options
        )
    return run / "encoder"


class Kept:
    """Numbers by name, in a file of one JSON object a line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.values: dict[str, Any] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                self.values.update(json.loads(line))

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        """The value of a name, made if it is not known."""
        if name not in self.values:
            self.values[name] = make()
            with self.path.open("a") as file:
                file.write(json.dumps({name: self.values[name]}) + "\n")
        return self.values[name]


def scores(arguments: argparse.Namespace) -> None:
    """Prints the tables of scores."""
    kept = Kept(arguments.out / "scores.jsonl")
    print("| encoder | text | way | all | 1/2 | 1/4 | 1/8 |\n|---|---|---|---|---|---|---|")
    for model in arguments.models:
        for name in arguments.names:
            for way, row in _rows(model, Text(name, arguments.texts), kept, arguments):
                cells = " | ".join(f"{score:.2f}" for score in row)
                print(f"| {Path(model).name} | {name} | {way} | {cells} |", flush=True)
    kinds = [(kind, rescored) for kind in KINDS for rescored in (False, True)]
    titles = " | ".join(f"{kind}{', rescored' if again else ''}" for kind, again in kinds)
    print(f"\n| encoder | text | float32 | {titles} |\n|---|---|---|---|---|---|---|")
    for model in arguments.models:
        for name in arguments.names:
            text = Text(name, arguments.texts)
            file = arguments.out / Path(model).name / f"{name}.npz"
            row = [kept.get(f"{model} {name} cut 1", lambda: None)]
            for kind, again in kinds:
                # Of pairs there is nothing to find again.
                if name == STS and again:
                    row.append(None)
                    continue
                make = partial(_small, text, model, file, kind, again)
                row.append(kept.get(f"{model} {name} {kind} {again}", make))
            cells = " | ".join("-" if score is None else f"{score:.2f}" for score in row)
            print(f"| {Path(model).name} | {name} | {cells} |", flush=True)


def _small(text: Text, model: str, file: Path, kind: str, rescored: bool) -> float:
    """The score of all features as bytes or bits."""
    return Encoded(text, model, file).small(kind, rescored)


def _rows(
    model: str, text: Text, kept: Kept, arguments: argparse.Namespace
) -> Iterator[tuple[str, list[float]]]:
    """The ways to smaller vectors of a text, with the score of each width."""
    out = arguments.out / Path(model).name
    whole = kept.get(f"{model} width", lambda: Encoder.load(model).dimension)
    widths = [whole // share for share in SHARES]
    start = out / f"{text.name}.npz"

    def row(name: str, score: Callable[[int], float]) -> list[float]:
        found = []
        for share in SHARES:
            make = partial(score, whole // share)
            found.append(kept.get(f"{model} {text.name} {name} {share}", make))
        return found

    yield "cut", row("cut", lambda width: Encoded(text, model, start).cut(width))
    yield "pca", row("pca", lambda width: Encoded(text, model, start).directions(width))
    if not arguments.trained:
        return
    for way in ("trained", "matryoshka"):
        runs = []
        for seed in arguments.seeds:
            run = out / f"{text.name}-{way}-{seed}"

            def score(width: int, way: str = way, seed: int = seed, run: Path = run) -> float:
                at = widths if way == "matryoshka" else []
                encoder = trained(text, model, seed, at, run)
                return Encoded(text, encoder, run.with_suffix(".npz")).cut(width)

            runs.append(row(f"{way} {seed}", score))
        yield way, [fmean(column) for column in zip(*runs, strict=True)]


def sentences_of_wikipedia(rows: int) -> list[str]:
    """The first different sentences of the text "wiki"."""
    path = Path(os.environ["ISOTUNE_DATA"], "wiki", "enwiki_1m.txt.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = dict.fromkeys(line.strip() for line in islice(file, 2 * rows))
    return [line for line in lines if line][:rows]


def index(arguments: argparse.Namespace) -> None:
    """Prints the table of indexes."""
    kept = Kept(arguments.out / "index.jsonl")
    (model,) = arguments.models
    print("| vectors | features | MB on disk | MB of memory | ms a search | of the ten nearest |")
    print("|---|---|---|---|---|---|")
    whole = kept.get(f"{model} width", lambda: Encoder.load(model).dimension)
    for kind, width in (
        ("float32", whole),
        ("int8", whole),
        ("binary", whole),
        ("float32", whole // 4),
    ):
        folder = arguments.out / f"{Path(model).name}-{kind}-{width}"
        name = f"{model} {arguments.rows} {kind} {width}"
        row = kept.get(name, partial(_measured, folder, kind, width, arguments))
        same = "-" if row["same"] is None else f"{row['same']:.1%}"
        print(
            f"| {kind} | {width} | {row['disk']:.0f} | {row['memory']:.0f} | "
            f"{row['milliseconds']:.1f} | {same} |",
            flush=True,
        )


def _measured(
    folder: Path, kind: Any, width: int, arguments: argparse.Namespace
) -> dict[str, float | None]:
    """What an index takes; it is made if it is missing."""
    (model,) = arguments.models
    texts = sentences_of_wikipedia(arguments.rows)
    exact = arguments.out / f"{Path(model).name}-float32-{width}"
    if not folder.exists() and exact.exists():
        # Its vectors are the same.
        shutil.copytree(exact, folder)
    if (folder / "index.json").exists():
        made = Index.open(folder, model)
        made.compare(kind)
    else:
        made = Index.create(folder, model, dimensions=width, vectors=kind)
    made.add(Document(str(number), text) for number, text in enumerate(texts))
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    command = [sys.executable, __file__, "search", str(folder), model]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {**answer, "disk": disk / 1e6, "same": made.same_nearest()}


def search(arguments: argparse.Namespace) -> None:
    """Searches an index in this process, by vectors of its rows, and prints time and memory."""
    opened = Index.open(arguments.out)
    rows = opened.store.first(QUERIES)
    times = []
    for row in rows:
        vector = np.asarray(row["vector"], np.float32)
        began = perf_counter()
        opened.search(row["text"], 10, vector=vector)
        times.append(perf_counter() - began)
    status = Path("/proc/self/status").read_text()
    # Not ru_maxrss, which holds the memory of the process that started this one.
    (most,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    print(json.dumps({"milliseconds": 1000 * median(times), "memory": int(most) / 1e3}))


def queries(arguments: argparse.Namespace) -> None:
    """Prints the table of questions by small encoders, among passages by a large one."""
    kept = Kept(arguments.out / "queries.jsonl")
    large, *_ = arguments.models
    print("| questions by | text | nDCG@10 x 100 | share | a second |\n|---|---|---|---|---|")
    for name in arguments.names:
        text = Text(name, arguments.texts)
        passages = Encoded(text, large, arguments.out / Path(large).name / f"{name}.npz").second
        rows = {}
        for model in arguments.models:
            key = f"{large} {name} asked by {model}"
            rows[model] = kept.get(key, partial(_asked, text, passages, model))
        for model, (score, rate) in rows.items():
            share = score / rows[large][0]
            print(f"| {model} | {name} | {score:.2f} | {share:.1%} | {rate:.0f} |", flush=True)


def _asked(text: Text, passages: Array, model: str) -> tuple[float, float]:
    """The score of questions by an encoder, and how many of them it encodes in a second."""
    encoder = Encoder.load(model)
    questions, _ = text.sides()
    vectors = encoder.encode_query(questions, normalize=True)
    times = []
    for question in questions[:QUERIES]:
        began = perf_counter()
        encoder.encode_query(question, normalize=True)
        times.append(perf_counter() - began)
    return text.score(lambda: vectors @ passages.T), 1 / median(times)


def main() -> None:
    """Measures what is missing, and prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["scores", "index", "search", "queries"])
    parser.add_argument("out", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--texts", type=Path, default=Path("texts"))
    parser.add_argument("--names", nargs="+", default=[STS, "stories"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--trained", action="store_true")
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    isotune.tune_process()
    whats = {"scores": scores, "index": index, "search": search, "queries": queries}
    whats[arguments.what](arguments)


if __name__ == "__main__":
    main()
