"""What a study needs, what of it is here, and how long its runs take: an estimate, from the model and what it reads.

A weight of the transformer blocks costs 2 floating-point operations (FLOP) for each token that passes it, and training
three times as much as encoding. A step has a time that it takes at least, whatever the model. What is left out: a
method's own layers beside the model's, reading, translation, and that a run ends early when its patience does.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from isotune.data import DATASETS, available
from isotune.data.rows import LabelledSentence, Sentence
from isotune.encoder.format.names import local_model
from isotune.evaluation import GROUPS
from isotune.lab.studies.plan import Run, expand
from isotune.lab.studies.study import Study
from isotune.recipes import Recipe

TOKENS = 20  # of a text
TASK = 6_000  # texts of an evaluation task: the mean of the seven STS tasks
DEV = 3_000  # texts of the dev data: STS-B's
OTHERS = 100_000  # rows of a source that isn't a named dataset
HEADS = 3 * 768**2  # weights of the layers that are trained where the model's vectors are computed once: CLSR's


class Work(NamedTuple):
    """What a method does with a row.

    Attributes:
        trained: texts that it trains the model on.
        encoded: texts that it only encodes.
        rows: that it makes of a pair in its source.
    """

    trained: int
    encoded: int
    rows: float


SENTENCES, LABELLED = 2, 1
PAIRS, TRIPLETS = 1 / 3, 1 / 10  # of 130,352 labelled pairs, nli:train, 46,410 and about 13,400

WORK = {
    "back-translation": Work(2, 0, SENTENCES),
    "bert-cf": Work(0, 2, SENTENCES),
    "clsr": Work(0, 2, PAIRS),
    "consert": Work(2, 0, SENTENCES),
    "consert-joint": Work(4, 0, LABELLED),
    "finetune-pair": Work(2, 0, LABELLED),
    "finetune-sentence": Work(1, 0, LABELLED),
    "flow": Work(0, 1, SENTENCES),
    "mirror": Work(2, 0, SENTENCES),
    "mlm": Work(1, 0, SENTENCES),
    "multitask": Work(9, 0, LABELLED),
    "nli": Work(2, 0, LABELLED),
    "self-guided": Work(1, 1, SENTENCES),
    "self-guided-bt": Work(1, 1, SENTENCES),
    "simcse": Work(2, 0, SENTENCES),
    "simcse-sup": Work(3, 0, TRIPLETS),
    "sncse": Work(3, 0, SENTENCES),
    "whitening": Work(0, 1, SENTENCES),
}
"""Of every method."""

SIZES = {
    "google-bert/bert-base-uncased": (12, 768),
    "google-bert/bert-large-uncased": (24, 1024),
    "google-bert/bert-base-multilingual-cased": (12, 768),
    "google/bert_uncased_L-4_H-256_A-4": (4, 256),
    "google/bert_uncased_L-4_H-512_A-8": (4, 512),
    "FacebookAI/roberta-base": (12, 768),
    "FacebookAI/roberta-large": (24, 1024),
    "sentence-transformers/bert-base-nli-mean-tokens": (12, 768),
    "sentence-transformers/bert-large-nli-mean-tokens": (24, 1024),
}
"""Blocks and features of the papers' models, for where they aren't at hand."""


class Machine(NamedTuple):
    """FLOP that a machine does in a second, all that is lost included, and the seconds that a step takes at least."""

    flops: float
    step: float


CPU = Machine(2e11, 0.05)
"""Two cores of a server, float32: 300 steps of ConSERT on the bundled model and the STS tasks took 135 seconds
(docs/results.md); this makes 137."""

GPU = Machine(1e13, 0.1)
"""Assumed, not measured. The self-guided paper's 455 seconds for SG-OPT on a Titan Xp (Table 6) are 153 here."""


@dataclass(frozen=True)
class Needs:
    """What a study needs.

    Attributes:
        runs: how many.
        cpu: hours on a CPU, estimated.
        gpu: and on a GPU.
        models: by name, and whether each is here.
        data: the same of datasets and files.
    """

    runs: int
    cpu: float
    gpu: float
    models: Mapping[str, bool]
    data: Mapping[str, bool]

    @property
    def missing(self) -> list[str]:
        """What isn't on this machine."""
        return [name for name, here in (*self.models.items(), *self.data.items()) if not here]


def needs(study: Study, model: str = "") -> Needs:
    """What a study needs; `model` takes the place of every model that it names. Nothing is asked of the hub."""
    # Seeds differ in nothing that counts here.
    runs = expand(study.model_copy(update={"seeds": study.seeds[:1]}), model or None)
    times = [1 if run.seed is None else len(study.seeds) for run in runs]
    cpu, gpu = (
        sum(n * seconds(run, study.tasks, machine) for run, n in zip(runs, times, strict=True)) / 3600
        for machine in (CPU, GPU)
    )
    named = dict.fromkeys(name for run in runs for name in models(run))
    read = dict.fromkeys([*study.statistics, *(name for run in runs for name in reads(run, study.tasks))])
    return Needs(
        sum(times),
        cpu,
        gpu,
        {name: model_folder(name) is not None for name in named},
        {name: is_here(name) for name in read},
    )


def seconds(run: Run, tasks: Iterable[str], machine: Machine) -> float:
    """What a run takes, with its evaluation; without the run that it starts from."""
    weights = _weights(run.model)
    text = 2 * weights * TOKENS / machine.flops  # seconds to encode one
    evaluated = TASK * len({member for task in tasks for member in GROUPS.get(task, (task,))})
    return text * evaluated + (_training(run.recipe, text, machine) if run.recipe else 0)


def _training(recipe: Recipe, text: float, machine: Machine) -> float:
    """Seconds that the stages of a recipe take, where a text takes `text` to encode."""
    found = 0.0
    for stage in recipe.stages:
        work, training = WORK[stage.method], stage.training
        batch = getattr(stage.options, "sentiment_batch_size", training.batch_size)
        rows = sum(_rows(source, work.rows) for source in recipe.inputs(stage).data)
        rows = min(rows, training.sample or rows)
        steps = training.total_steps(max(1, int(rows) // batch))
        trained = work.trained + (training.mlm_weight > 0)
        if stage.method == "whitening":
            found += text * rows
            continue
        if stage.method == "clsr" or getattr(stage.options, "cached", False):
            found += work.encoded * (text * rows + steps * batch * 6 * HEADS / machine.flops)
        else:
            found += text * steps * batch * (3 * trained + work.encoded) + steps * machine.step
        if recipe.dev != "none":
            found += text * DEV * (steps // training.eval_every)
    return found


def reads(run: Run, tasks: Iterable[str]) -> Iterator[str]:
    """All data that a run reads, the dev data and those of its tasks too."""
    for task in (member for name in tasks for member in GROUPS.get(name, (name,))):
        # A task has the name of its dataset, but for these.
        name = re.sub("^(senteval-(50-)?|geometry:)", "", task)
        yield {"geometry": "stsb:dev", "geometry-qqp": "qqp:train"}.get(name, name)
    if run.recipe is None:
        return
    for stage in run.recipe.stages:
        inputs = run.recipe.inputs(stage)
        yield from (*inputs.data, *inputs.dev)
        if run.recipe.dev_pairs and not inputs.dev:
            yield run.recipe.dev_pairs


def models(run: Run) -> Iterator[str]:
    """The models that a run takes, those that translate for it too."""
    if run.model:
        yield run.model
    for stage in run.recipe.stages if run.recipe else ():
        yield from stage.options.extra_models()


def is_here(source: str) -> bool:
    """Whether data are on this machine; the hub isn't asked."""
    name = source.partition(":")[0]
    return available(name) if name in DATASETS else Path(source).exists() or bool(glob.glob(source))


def model_folder(model: str) -> Path | None:
    """Where a model is on this machine, the hub's cache included; the hub isn't asked."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if path := local_model(model):
        return path
    try:
        found = [try_to_load_from_cache(model, f"model.safetensors{ending}") for ending in ("", ".index.json")]
    except HFValidationError:
        return None
    return next((Path(file).parent for file in found if isinstance(file, str)), None)


@cache
def _weights(model: str) -> int:
    """Of the blocks: 4 d^2 in the attention and 2 d times the inner size behind it; of an unknown model BERT-base's."""
    folder = model_folder(model) if model else None
    try:
        config = json.loads((folder / "config.json").read_text("utf-8")) if folder else {}
    except (OSError, ValueError):
        config = {}
    blocks, d = SIZES.get(model, (12, 768))
    blocks, d = config.get("num_hidden_layers", blocks), config.get("hidden_size", d)
    return int(blocks * (4 * d**2 + 2 * d * config.get("intermediate_size", 4 * d)))


def _rows(source: str, of_a_pair: float) -> float:
    """The rows that a method has of a source."""
    name, _, split = source.partition(":")
    if name not in DATASETS:
        return OTHERS
    dataset = DATASETS[name]
    rows = sum(part.row_count for known, part in dataset.splits.items() if split in ("", known))
    single = dataset.row_types[0] in (Sentence, LabelledSentence)
    return rows * (1 if single else of_a_pair) + sum(_rows(member, of_a_pair) for member in dataset.union)
