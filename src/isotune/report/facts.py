"""The facts of a run as a report's page shows them: costs, stages, data and the next commands."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open

from isotune.evaluation.run_results import RunEvaluation
from isotune.report.stages import METRIC_TITLES, StageRecords

DATA_TITLES = {
    "distinct": "different texts",
    "cut": "texts cut at the maximum length",
}
"""The facts of data whose names don't say what they are."""


class Facts(NamedTuple):
    """Facts under a title."""

    title: str
    facts: Mapping[str, Any]


class Overlap(NamedTuple):
    """How much of an evaluation set is in the training text."""

    task: str
    stages: str
    texts: str
    pairs: str


class StageWords(NamedTuple):
    """A stage in the strip of all stages."""

    title: str
    lines: Sequence[str]


class NextStep(NamedTuple):
    """Commands that follow a run, and the sentence before them."""

    words: str
    commands: Sequence[str]


def next_steps(lines: Sequence[str]) -> list[NextStep]:
    """Groups the lines that the log ends with: sentences, each with the commands below it."""
    steps: list[NextStep] = []
    words: list[str] = []
    commands: list[str] = []
    for line in lines:
        if line.startswith("  "):
            commands.append(line.strip())
            continue
        if commands:
            steps.append(_next_step(words, commands))
            words = []
            commands = []
        words.append(line)
    if words or commands:
        steps.append(_next_step(words, commands))
    return steps


def _next_step(words: Sequence[str], commands: Sequence[str]) -> NextStep:
    sentences = []
    for line in words:
        text = line
        first, _, _ = line.partition(" ")
        # A path or a command is no word to begin with a capital.
        if first.isalpha():
            text = line[0].upper() + line[1:]
        if not text.endswith((":", "?", ".")):
            text += "."
        sentences.append(text)
    return NextStep(" ".join(sentences), commands)


def costs(run: Path, evaluation: RunEvaluation | None, begun: datetime | None) -> dict[str, str]:
    """What the run and its encoder cost, as far as the run folder says."""
    found = {}
    if evaluation and begun:
        took, _, _ = str(evaluation.after.created - begun).partition(".")
        found["Time"] = f"{took} from the beginning to the last scores"
    size = _size(run / "encoder" / "model.safetensors")
    if size:
        found["Size"] = size
    agreement = evaluation and evaluation.agreement
    if agreement:
        found["Teachers"] = agreement.teachers.words
        found["Kept encoder"] = f"{agreement.student.words}, measured once on this machine"
    return found


def _size(weights: Path) -> str:
    """The size of a file of weights in words; empty if there is none."""
    if not weights.exists():
        return ""
    count = 0
    with safe_open(weights, framework="numpy") as file:
        for name in file.keys():  # noqa: SIM118, the file is no mapping
            count += prod(file.get_slice(name).get_shape())
    megabytes = weights.stat().st_size / 1e6
    return f"{count / 1e6:.1f} million weights, {megabytes:,.1f} MB"


def stage_words(stages: Sequence[StageRecords], ends: Sequence[str]) -> list[StageWords]:
    """The stages in words; `ends` says why each stage of the run ended."""
    reasons = dict(enumerate(ends, 1))
    found = []
    for stage in stages:
        first, last = stage.steps
        lines = [f"steps {first:,} to {last:,}", *_scores(stage), *_losses(stage)]
        if stage.number in reasons:
            lines.append(reasons[stage.number])
        found.append(StageWords(f"{stage.number} {stage.method}".strip(), lines))
    return found


def _scores(stage: StageRecords) -> Iterator[str]:
    """The dev scores of a stage at its start and of the encoder kept, and its test scores."""
    if stage.dev:
        for key in ("score", *stage.parts):
            title = METRIC_TITLES.get(key, key)
            if key == "score":
                title = f"dev {stage.metric}"
            yield f"{title} {100 * stage.dev[0][key]:.2f} → {100 * stage.kept[key]:.2f}"
    for name, value in stage.tested.items():
        yield f"test {name} {100 * value:.2f}"


def _losses(stage: StageRecords) -> Iterator[str]:
    """The terms of the loss in a stage's first record and in its last."""
    if not stage.train:
        return
    first = stage.train[0]
    last = stage.train[-1]
    for term in stage.terms:
        yield f"{term} {first['terms'][term]:.3g} → {last['terms'][term]:.3g}"
    if len(stage.terms) > 1:
        yield f"sum {first['loss']:.3g} → {last['loss']:.3g}"


def space_words(stages: Sequence[StageRecords], fewest: int) -> list[str]:
    """The measures of the vector space in a line, of each stage with fewer than some records."""
    lines = []
    for stage in stages:
        if not stage.space or len(stage.space) >= fewest:
            continue
        first = stage.space[0]
        last = stage.space[-1]
        cosines = f"mean cosine {first['mean_cosine']:.3f} → {last['mean_cosine']:.3f}"
        ranks = f"effective rank {first['effective_rank']:.1f} → {last['effective_rank']:.1f}"
        lines.append(f"{stage.title}: {cosines}, {ranks}.")
    return lines


def data_facts(data: Mapping[str, Any]) -> list[Facts]:
    """The facts of each feed of rows; feeds with the same facts, such as stages, stand together."""
    titles: list[list[str]] = []
    alike: list[Mapping[str, Any]] = []
    for name, feed in data.items():
        facts = {}
        for key, value in feed.items():
            if key != "overlap":
                facts[DATA_TITLES.get(key, key).replace("_", " ")] = value
        if facts in alike:
            titles[alike.index(facts)].append(name)
        else:
            titles.append([name])
            alike.append(facts)
    return [Facts(_joined(names), facts) for names, facts in zip(titles, alike, strict=True)]


def overlaps(data: Mapping[str, Any]) -> list[Overlap]:
    """How much of each evaluation set is in the training text; equal counts of stages once."""
    stages: dict[tuple[str, str, str], list[str]] = {}
    for name, feed in data.items():
        for task, counts in feed.get("overlap", {}).items():
            texts = _share(counts["sentences"], counts["of_sentences"])
            pairs = _share(counts["pairs"], counts["of_pairs"])
            stages.setdefault((task, texts, pairs), []).append(name)
    found = []
    for (task, texts, pairs), names in stages.items():
        found.append(Overlap(task, _joined(names), texts, pairs))
    return found


def _share(count: int, of: int) -> str:
    if not of:
        return ""
    return f"{count:,} of {of:,}"


def _joined(names: Sequence[str]) -> str:
    """Names such as "stage 1" and "stage 2" as one: "stage 1, 2"."""
    first, *others = names
    shared, _, _ = first.rpartition(" ")
    short = [first]
    for name in others:
        short.append(name.removeprefix(f"{shared} ") if shared else name)
    return ", ".join(short)
