"""A run folder as training leaves it, with generated numbers."""

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from isotune.evaluation import GROUPS, Evaluation, RunEvaluation, STSResult
from isotune.evaluation.examples import Examples, Neighbours, pair_examples
from isotune.evaluation.results import Aggregates, Correlations, Difference, SubsetResult
from isotune.evaluation.text_changes import NewNearest, TextChanges
from isotune.report.stages import sealed


class Page(HTMLParser):
    """The text, tags and attributes of a page.

    An element that is left open or closed twice is an error.
    """

    VOID = frozenset({"meta", "link", "br", "img", "input"})

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.html = path.read_text(encoding="utf-8")
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(self.html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def neighbours(self) -> str:
        """What the page's script reads."""
        (found,) = re.findall(r'<script id="neighbours"[^>]*>(.*?)</script>', self.html)
        return str(found)

    @property
    def headings(self) -> list[str]:
        return re.findall(r"<h2[^>]*>([^<]*)</h2>", self.html)

    @property
    def verdict(self) -> str:
        (verdict,) = re.findall(r'<p class="verdict[^"]*">(.*?)</p>', self.html, re.DOTALL)
        return re.sub("</?small>", "", verdict)


STEPS, KEPT = 300, 150
RECIPE = """\
seed = 42
device = "cpu"

[[stages]]
method = "consert"
temperature = 0.1
views = ["feature_cutoff", "shuffle"]

[stages.optimiser]
learning_rate = 3e-5
warmup = 0.1
"""


def aggregates(value: float) -> Aggregates:
    return Aggregates(all=value, mean=value + 0.01, wmean=value + 0.02)


def evaluation(
    values: dict[str, float], encoder: str = "bert-base", average: float | None = None
) -> Evaluation:
    """An evaluation with the given Spearman "all" of each task and of the group sts.

    Pearson's correlation is 0.05 higher.
    """
    tasks = tuple(
        STSResult(
            name=name,
            split="test",
            pairs=1500,
            spearman=aggregates(value),
            pearson=aggregates(value + 0.05),
            subsets={"": SubsetResult(pairs=1500, spearman=value, pearson=value + 0.05)},
        )
        for name, value in values.items()
    )
    averages = (
        {"sts": Correlations(spearman=aggregates(average), pearson=aggregates(average + 0.05))}
        if average
        else {}
    )
    created = datetime(2025, 11, 20, 7, 30, tzinfo=UTC)
    return Evaluation(
        encoder=encoder,
        tasks=tasks,
        averages=averages,
        versions={"isotune": "0.1.0"},
        created=created,
    )


def metrics() -> list[dict[str, Any]]:
    """Train every 5 steps; dev and space every 25, the best dev score at step 150."""
    records: list[dict[str, Any]] = []
    for step in range(0, STEPS + 1, 5):
        if step % 25 == 0:
            score = 0.512 - 0.18 * ((step - KEPT) / KEPT) ** 2
            space = {
                "mean_cosine": 0.2 + 0.6 * np.exp(-step / 60),
                "effective_rank": 80 - 65 * np.exp(-step / 80),
            }
            records.append(
                {
                    "kind": "dev",
                    "step": step,
                    "metric": "spearman",
                    "score": score,
                    "best": step <= KEPT,
                }
            )
            records.append({"kind": "space", "step": step, **space})
        if step:
            terms = {"info_nce": 3 * np.exp(-step / 70) + 0.4, "margin": 0.3 * np.exp(-step / 200)}
            records.append(
                {"kind": "train", "step": step, "loss": sum(terms.values()), "terms": terms}
            )
    fell = "the dev score fell 3 times in a row"
    warnings = [
        (0, "17 of 10,000 sentences were longer than 64 tokens and were cut"),
        (250, fell),
        (275, fell),
    ]
    return records + [
        {"kind": "warning", "step": step, "message": message} for step, message in warnings
    ]


def write_metrics(run: Path, records: list[dict[str, Any]]) -> None:
    (run / "metrics.jsonl").write_text("".join(sealed(record) + "\n" for record in records))


SEVEN_BEFORE = dict(zip(GROUPS["sts"], (0.31, 0.45, 0.38, 0.49, 0.47, 0.37, 0.39), strict=True))
SEVEN_AFTER = dict(zip(GROUPS["sts"], (0.44, 0.56, 0.49, 0.60, 0.55, 0.49, 0.46), strict=True))


def second_stage(offset: int = STEPS, steps: int = 100) -> list[dict[str, Any]]:
    """A second stage, whose dev score is a mean of two; its best score is at the last step."""
    records: list[dict[str, Any]] = []
    for step in range(0, steps + 1, 50):
        parts = {"sentiment": 0.2 + step / 400, "similarity": 0.4 + step / 200}
        score = sum(parts.values()) / 2
        records.append(
            {
                "kind": "dev",
                "step": offset + step,
                "metric": "mean",
                "score": score,
                "best": True,
                **parts,
            }
        )
        if step:
            terms = {"cross_entropy": 2 - step / 100}
            records.append(
                {
                    "kind": "train",
                    "step": offset + step,
                    "loss": terms["cross_entropy"],
                    "terms": terms,
                }
            )
    return [{**record, "stage": 2} for record in records]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run on the seven STS tasks that helped."""
    return make_run(tmp_path)


def make_run(parent: Path) -> Path:
    folder = parent / "consert-demo"
    (folder / "encoder").mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE)
    environment = {
        "isotune": "0.1.0",
        "cpu": "x86_64",
        "gpu": None,
        "cores": 2,
        "started": "2025-11-20T07:28:30Z",
    }
    (folder / "environment.json").write_text(json.dumps(environment))
    sources = ["corpus/support-tickets.txt", "corpus/manual.jsonl"]
    data = {"sources": sources, "rows": 12000, "distinct": 11873, "cut": 17, "sha256": "9f2c" * 16}
    (folder / "data.json").write_text(json.dumps({"stage 1": data}))
    write_metrics(folder, metrics())
    before, after = (
        evaluation(values, average=fmean(values.values())) for values in (SEVEN_BEFORE, SEVEN_AFTER)
    )
    gain = Difference(
        encoder="new", against="old", score="sts", difference=0.104, low=0.09, high=0.12
    )
    told: dict[str, Any] = {
        "ends": ["all steps were made, 300 of 300"],
        "pooled": "pooled by max",
        "own_tasks": ["sts"],
    }
    result = RunEvaluation(
        before=before, after=after, selected_step=KEPT, differences=(gain,), **told
    )
    (folder / "evaluation.json").write_text(result.model_dump_json())
    random = np.random.default_rng(1)
    gold = random.choice(np.arange(0, 5.2, 0.2), 1500).astype(np.float32)
    before = np.clip(0.82 + 0.02 * gold / 5 + random.normal(0, 0.06, 1500), 0, 1)
    after = np.clip(0.1 + 0.7 * gold / 5 + random.normal(0, 0.22, 1500), -0.2, 1)
    np.savez(
        folder / "cosines.npz",
        gold=gold,
        before=before.astype(np.float32),
        after=after.astype(np.float32),
        task=np.array("stsb dev"),
    )
    set_examples(folder, "a cat")
    lines = ["search in this text:", "  isotune index e t", "  isotune search i"]
    (folder / "next.json").write_text(json.dumps(lines))
    return folder


def set_examples(run: Path, text: str) -> None:
    """Gives a run examples with this text."""
    texts = [(text, "a tomcat"), ("a dog", "a car"), ("rain", "a stone")]
    gold, before, after = np.array([[3.0, 1, 2], [1, 2, 3], [2, 3, 1]])
    near = Neighbours(
        sentences=(text, "b", "c"),
        before=((1,), (2,), (1,)),
        before_cosines=((0.9,), (0.9,), (0.9,)),
        after=((2,), (2,), (1,)),
        after_cosines=((0.8,), (0.7,), (0.7,)),
    )
    examples = Examples(
        people=pair_examples(texts, gold, before, after), people_of="stsb", neighbours=near
    )
    (run / "examples.json").write_text(examples.model_dump_json())
    nearest = (NewNearest(sentence="old", before="b", after="c"),)
    changes = TextChanges(
        sentences=3, agreement=0.5, same_nearest=0.5, same_neighbours=0.5, new_nearest=nearest
    )
    (run / "text-changes.json").write_text(changes.model_dump_json())
