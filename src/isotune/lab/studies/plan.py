"""The runs of a study, each with its complete recipe, and what they need of this machine. The hub is not asked.

Every arm is run at every cell of the grid with every seed. An option of the study or of its grid applies to the arms
that have it. An untrained model has a pooling but no batch size, so it is a single line of a table whose other arms are
run at several batch sizes.
"""

from __future__ import annotations

import glob
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from isotune.bundled import local_model
from isotune.data import DATASETS, LabelledSentence, Sentence, available, stand_ins
from isotune.encoder import EncoderOptions, fetched_model
from isotune.errors import InputError, invalid, unknown
from isotune.evaluation import named_tasks, source_of
from isotune.lab.studies.study import START, STUDY_KEYS, WORDS, Arm, Cell, Study
from isotune.lab.studies.wording import line_title
from isotune.methods import method_class
from isotune.recipes import RUN_OPTIONS, Inputs, Recipe, TrainingOptions, plan_table, resolve


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One training, or the evaluation of an untrained model."""

    arm: str  # the name of its arm
    cell: Cell  # its place in the grid; only options that the arm has
    seed: int | None  # None for an untrained model, unless the seed is its classifiers'
    model: str  # the pretrained model at the beginning of its chain of runs
    encoder: EncoderOptions  # how vectors are taken from the model
    recipe: Recipe | None = None  # what is trained, without the model; None for an untrained model
    start: PlannedRun | None = None  # the run whose encoder it starts from
    baseline: PlannedRun | None = None  # the evaluation of what it starts from, if the study has scores of that
    classifier_seed: int | None = None  # of SentEval's classifiers, if it is not SentEval's own
    turn: tuple[int, int] = (0, 0)  # the place of its seed in the study, and of its cell in the arm

    @property
    def title(self) -> str:
        """Its arm, cell and seed, in words."""
        seed = [] if self.seed is None else [f"seed {self.seed}"]
        return ", ".join([line_title(self.arm, self.cell), *seed])

    @property
    def inputs(self) -> Inputs:
        """What all stages read, each source and model once. Dev pairs that choose a stage's best step are among it."""
        recipe = self.recipe
        stages = [recipe.inputs(stage) for stage in recipe.stages] if recipe else []
        dev_pairs = (recipe.dev_pairs,) if recipe and recipe.dev_pairs else ()
        return Inputs(
            tuple(dict.fromkeys(source for stage in stages for source in stage.data)),
            tuple(dict.fromkeys(source for stage in stages for source in stage.dev or dev_pairs)),
            tuple(dict.fromkeys(model for stage in stages for model in stage.models)),
        )


def plan_runs(study: Study, model: str | None = None) -> list[PlannedRun]:
    """All runs of a study, each after the run that it starts from; `model` replaces every model of the study.

    Raises:
        InputError: no arm has some option, or a value is not allowed.
    """
    known = {arm.name: _options_of(arm) for arm in study.arms}
    for key in (*study.options, *study.grid):
        if not any(_has(options, key) for options in known.values()):
            raise unknown("option", key, {option for options in known.values() for option in options})
    with_baselines = any(score.startswith(START) for score in study.scores)
    runs: list[PlannedRun] = []
    for arm in study.arms:
        for key in arm.grid or ():
            if not _has(known[arm.name], key):
                raise unknown(f"option of arm {arm.name}", key, known[arm.name])
        grid = study.grid if arm.grid is None else arm.grid
        grid = {key: values for key, values in grid.items() if _has(known[arm.name], key)}
        shared = {key: value for key, value in study.options.items() if _has(known[arm.name], key)}
        start_model = WORDS if arm.model == WORDS else model or arm.model or study.model
        seeds = study.seeds if arm.trained or study.classifier_seeds else (None,)
        for (i, values), (j, seed) in product(enumerate(product(*grid.values())), enumerate(seeds)):
            cell = dict(zip(grid, values, strict=True))
            start = _start(arm, cell, seed, runs) if arm.start else None
            options = {**shared, **arm.options, **cell}
            run = _planned(arm, options, cell, seed, start_model, start, study.stand_ins)
            baseline = start
            if with_baselines and run.recipe and not start:
                baseline = PlannedRun(f"{arm.name}, start", cell, None, run.model, run.encoder)
            classifier_seed = seed if study.classifier_seeds else None
            runs.append(replace(run, baseline=baseline, classifier_seed=classifier_seed, turn=(j, i)))
    return runs


def _planned(
    arm: Arm,
    options: Mapping[str, Any],
    cell: Cell,
    seed: int | None,
    model: str,
    start: PlannedRun | None,
    with_stand_ins: bool,
) -> PlannedRun:
    name = f"arm {arm.name}"
    if not arm.trained:
        try:
            return PlannedRun(arm.name, cell, seed, model, EncoderOptions.model_validate(options))
        except ValidationError as error:
            raise invalid(name, error) from error
    whole = {key: value for key, value in options.items() if "." not in key}
    elements = {key: value for key, value in options.items() if "." in key}
    sources = whole.pop("data", arm.data)
    given = {**whole, "seed": seed}
    recipe = resolve(sources, arm.recipe or None, arm.method or None, given, with_stand_ins=with_stand_ins)
    # The result of a study must not depend on which precision is fast on the machine.
    recipe = recipe.with_precision("float32")
    if elements:
        table = recipe.table()
        *stages, encoder_table = _with_elements([*table["stages"], table["encoder"]], elements, name)
        recipe = Recipe.from_table({**table, "encoder": encoder_table, "stages": stages}, name)
    return PlannedRun(arm.name, cell, seed, start.model if start else model, recipe.encoder, recipe, start)


def _start(arm: Arm, cell: Cell, seed: int | None, runs: Sequence[PlannedRun]) -> PlannedRun:
    """The run of the arm `arm.start` with this seed, at this place of the grid."""
    for run in runs:
        if (run.arm, run.seed) == (arm.start, seed) and run.cell.items() <= cell.items():
            return run
    raise InputError(
        f"{line_title(arm.name, cell)}: it starts from {arm.start}, which has no run at this place of the grid; give "
        f"{arm.start} a grid of its own, grid = {{}} for a single cell"
    )


def _options_of(arm: Arm) -> set[str]:
    """The names of the options that an arm has."""
    if not arm.trained:
        return set(EncoderOptions.model_fields)
    recipe = Recipe.from_table(plan_table(arm.recipe or None, arm.method or None, None), f"arm {arm.name}")
    methods = {key for stage in recipe.stages for key in type(stage.options).model_fields}
    return {*RUN_OPTIONS, *EncoderOptions.model_fields, *TrainingOptions.model_fields, *methods} - STUDY_KEYS


def _has(options: Collection[str], key: str) -> bool:
    return key.partition(".")[0] in options


def _with_elements(tables: Sequence[Mapping[str, Any]], elements: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Copies of the tables with single elements of lists replaced, in every table that has the list."""
    result = [dict(table) for table in tables]
    for key, value in elements.items():
        option, _, place = key.partition(".")
        lists = [table for table in result if isinstance(table.get(option), tuple | list)]
        if not lists:
            raise InputError(f"{name}: {key}: {option} is no list of values; give {option} itself")
        for table in lists:
            values = list(table[option])
            if not place.isdecimal() or int(place) >= len(values):
                raise InputError(f"{name}: {key}: {option} has {len(values)} values, from {option}.0 on")
            values[int(place)] = value
            table[option] = values
    return result


@dataclass(frozen=True)
class Needs:
    """What a study needs."""

    runs: int  # the number of its runs
    models: Mapping[str, bool]  # name -> whether the model is on this machine
    data: Mapping[str, bool]  # dataset or file -> whether it is on this machine

    @property
    def data_here(self) -> str:
        """What is on this machine: "published" data; "stand-in", if other data can take the place of the rest; "no"."""
        lacking = [source for source, here in self.data.items() if not here]
        if not lacking:
            return "published"
        return "stand-in" if all(_is_here(other) for source in lacking for other in stand_ins(source)) else "no"


def rows_to_train(recipe: Recipe) -> float:
    """The rows that a run trains on if no stage ends early, each as often as it is read.

    Those of a frozen encoder, which are encoded once, are not counted, nor are files.
    """
    total = 0.0
    for stage in recipe.stages:
        method, training, options = method_class(stage.method), stage.training, stage.options.model_dump()
        if not stage.options.takes_steps or options.get("cached", method.cached):
            continue
        if training.steps:
            of_tasks = sum(value for key, value in options.items() if key.endswith("_batch_size"))
            total += training.steps * (of_tasks or training.batch_size)
        else:
            as_sentences = method.rows is Sentence
            rows = sum([_row_count(source, as_sentences) for source in recipe.inputs(stage).data])
            sample = None if training.upsample else training.sample
            total += (training.epochs or 1) * (sample or rows)
    return total


def _row_count(source: str, as_sentences: bool) -> int:
    """The rows of a dataset or split, or its sentences; 0 for a file."""
    name, _, split = source.partition(":")
    if name not in DATASETS:
        return 0
    dataset = DATASETS[name]
    counts = [max(part.row_count, part.gold_count) for known, part in dataset.splits.items() if split in ("", known)]
    texts = 2 if as_sentences and dataset.row_types not in ((Sentence,), (LabelledSentence,)) else 1
    return texts * sum(counts) + sum(_row_count(member, as_sentences) for member in dataset.union)


def needs(study: Study, model: str = "") -> Needs:
    """What a study needs; `model` replaces every model of the study."""
    runs = plan_runs(study.model_copy(update={"seeds": study.seeds[:1]}), model or None)  # all seeds need the same
    inputs = [run.inputs for run in runs]
    models = [name for run, reads in zip(runs, inputs, strict=True) for name in (run.model, *reads.models)]
    of_tasks = [source_of(task) for task in named_tasks(study.tasks)] if runs and study.tasks else []
    sources = [*study.statistics, *of_tasks, *(source for reads in inputs for source in (*reads.data, *reads.dev))]
    return Needs(
        runs=sum(1 if run.seed is None else len(study.seeds) for run in runs),
        models={
            name: bool(local_model(name) or fetched_model(name)) for name in dict.fromkeys(models) if name != WORDS
        },
        data={source: _is_here(source) for source in dict.fromkeys(sources)},
    )


def _is_here(source: str) -> bool:
    """Whether a dataset or file is on this machine."""
    name = source.partition(":")[0]
    return available(source) if name in DATASETS else Path(source).exists() or bool(glob.glob(source))


def changed_study(study: Study, seeds: Sequence[int], options: Mapping[str, Any]) -> Study:
    """A study with other seeds, and with options that replace those of the study and of its arms.

    Raises:
        InputError: the study runs one of the options at several values.
    """
    for key in options:
        for place, grid in (("the study", study.grid), *((f"arm {arm.name}", arm.grid or {}) for arm in study.arms)):
            if any(_overlap(key, axis) for axis in grid):
                raise InputError(f"option {key} can't be given: {place} runs it at several values")

    def not_given(kept: Mapping[str, Any]) -> dict[str, Any]:
        return {key: kept[key] for key in kept if not {key, key.partition(".")[0]} & options.keys()}

    arms = tuple(arm.model_copy(update={"options": not_given(arm.options)}) for arm in study.arms)
    shared = {**not_given(study.options), **options}
    return study.model_copy(update={"arms": arms, "seeds": tuple(seeds) or study.seeds, "options": shared})


def departures(study: Study, published: Study, model: str, options: Mapping[str, Any]) -> list[str]:
    """What is not as published, in sentences."""
    sentences = []
    if model and set(published.models) - {model}:
        sentences.append(f"The model is {model}, not the published {' or '.join(published.models)}.")
    if options:
        given = ", ".join(f"{key} = {value}" for key, value in options.items())
        sentences.append(f"Options that differ from the published ones: {given}.")
    if study.seeds != published.seeds:
        sentences.append(f"Seeds {', '.join(map(str, study.seeds))}, not {', '.join(map(str, published.seeds))}.")
    return sentences


def _overlap(option: str, other: str) -> bool:
    """Whether two options set the same value: "augmentations" overlaps "augmentations.0", which overlaps no ".1"."""
    return option == other or option == other.partition(".")[0] or other == option.partition(".")[0]
