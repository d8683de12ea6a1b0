"""The runs of a study, each with its complete recipe, and what they read. The hub is not asked.

Every arm is run at every cell of the grid with every seed. An option of the study or of its grid applies to the arms
that have it. An untrained model has a pooling but no batch size, so it is a single line of a table whose other arms are
run at several batch sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pydantic import ValidationError

from isotune.data import DATASETS, stand_ins
from isotune.encoder import EncoderOptions
from isotune.errors import InputError, invalid, unknown
from isotune.evaluation import named_tasks, source_of
from isotune.lab.studies.study import START, STUDY_KEYS, Arm, Cell, Study
from isotune.lab.studies.wording import line_title
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
    baseline: PlannedRun | None = (
        None  # the evaluation of what it starts from, if the study has scores of that
    )
    classifier_seed: int | None = None  # of SentEval's classifiers, if it is not SentEval's own
    turn: tuple[int, int] = (0, 0)  # the place of its seed in the study, and of its cell in the arm

    @property
    def title(self) -> str:
        """Its arm, cell and seed, in words."""
        seed = [] if self.seed is None else [f"seed {self.seed}"]
        return ", ".join([line_title(self.arm, self.cell), *seed])

    @property
    def inputs(self) -> Inputs:
        """What all stages read, each source and model once. Dev data that choose a stage's best step are among it."""
        recipe = self.recipe
        stages = [recipe.inputs(stage) for stage in recipe.stages] if recipe else []
        dev = recipe.dev_task if recipe else None
        chosen_on = (dev if dev.partition(":")[0] in DATASETS else source_of(dev),) if dev else ()
        return Inputs(
            tuple(dict.fromkeys(source for stage in stages for source in stage.data)),
            tuple(dict.fromkeys(source for stage in stages for source in stage.dev or chosen_on)),
            tuple(dict.fromkeys(model for stage in stages for model in stage.models)),
        )


def plan_runs(study: Study, model: str | None = None) -> list[PlannedRun]:
    """All runs of a study, each after the run that it starts from; `model` replaces every model of the study."""
    known = {arm.name: _options_of(arm) for arm in study.arms}
    unused = (
        set()
        if any(arm.trained for arm in study.arms)
        else {*RUN_OPTIONS, *TrainingOptions.model_fields}
    )
    for key in (*study.options, *study.grid):
        if key not in unused and not any(key in options for options in known.values()):
            raise unknown(
                "option", key, {option for options in known.values() for option in options}
            )
    with_baselines = any(score.startswith(START) for score in study.scores)
    runs: list[PlannedRun] = []
    for arm in study.arms:
        for key in arm.grid or ():
            if key not in known[arm.name]:
                raise unknown(f"option of arm {arm.name}", key, known[arm.name])
        grid = study.grid if arm.grid is None else arm.grid
        grid = {key: values for key, values in grid.items() if key in known[arm.name]}
        shared = {key: value for key, value in study.options.items() if key in known[arm.name]}
        seeds = study.seeds if arm.trained or study.classifier_seeds else (None,)
        for (i, values), (j, seed) in product(enumerate(product(*grid.values())), enumerate(seeds)):
            cell = dict(zip(grid, values, strict=True))
            start = _start(arm, cell, seed, runs) if arm.start else None
            options = {**shared, **arm.options, **cell}
            recipe = None
            if arm.trained:
                sources, options = options.pop("data", arm.data), {**options, "seed": seed}
                recipe = resolve(
                    sources,
                    arm.recipe or None,
                    arm.method or None,
                    options,
                    with_stand_ins=study.stand_ins,
                )
                # The result of a study must not depend on which precision is fast on the machine.
                recipe = recipe.with_precision("float32")
            try:
                encoder = recipe.encoder if recipe else EncoderOptions.model_validate(options)
            except ValidationError as error:
                raise invalid(f"arm {arm.name}", error) from error
            first, baseline = start.model if start else model or arm.model or study.model, start
            if with_baselines and recipe and not start:
                baseline = PlannedRun(f"{arm.name}, start", cell, None, first, encoder)
            seed_of_classifiers = seed if study.classifier_seeds else None
            of_run = first, encoder, recipe, start, baseline, seed_of_classifiers, (j, i)
            runs.append(PlannedRun(arm.name, cell, seed, *of_run))
    return runs


def _start(arm: Arm, cell: Cell, seed: int | None, runs: Sequence[PlannedRun]) -> PlannedRun:
    for run in runs:
        if (run.arm, run.seed) == (arm.start, seed) and run.cell.items() <= cell.items():
            return run
    raise InputError(
        f"{line_title(arm.name, cell)}: it starts from {arm.start}, which has no run at this place of the grid; give "
        f"{arm.start} a grid of its own, grid = {{}} for a single cell"
    )


def _options_of(arm: Arm) -> set[str]:
    if not arm.trained:
        return set(EncoderOptions.model_fields)
    recipe = Recipe.from_table(
        plan_table(arm.recipe or None, arm.method or None, None), f"arm {arm.name}"
    )
    methods = {key for stage in recipe.stages for key in type(stage.options).model_fields}
    return {
        *RUN_OPTIONS,
        *EncoderOptions.model_fields,
        *TrainingOptions.model_fields,
        *methods,
    } - STUDY_KEYS


def needs(study: Study, model: str = "") -> tuple[list[str], list[str]]:
    """The datasets and files that a study reads, and its models; `model` replaces every model of the study."""
    runs = plan_runs(
        study.model_copy(update={"seeds": study.seeds[:1]}), model or None
    )  # all seeds read the same
    tasks = [source_of(task) for task in named_tasks(study.tasks)] if runs and study.tasks else []
    data = [source for run in runs for source in (*run.inputs.data, *run.inputs.dev)]
    models = [name for run in runs for name in (run.model, *run.inputs.models)]
    return list(dict.fromkeys([*study.statistics, *tasks, *data])), list(dict.fromkeys(models))


def changed_study(
    study: Study, seeds: Sequence[int], options: Mapping[str, Any], *, with_stand_ins: bool = False
) -> Study:
    """A study with other seeds, with options in place of its own and its arms', and on data that stand in for others.

    The official text of the STS tasks stands in for SentEval's.
    """
    for key in options:
        for place, grid in (
            ("the study", study.grid),
            *((f"arm {arm.name}", arm.grid or {}) for arm in study.arms),
        ):
            if key in grid:
                raise InputError(f"option {key} can't be given: {place} runs it at several values")

    arms, length = [], {"epochs", "steps"}
    for arm in study.arms:
        replaced = {*options, *(length if length & options.keys() else ())}
        kept = {key: value for key, value in arm.options.items() if key not in replaced}
        arms.append(arm.model_copy(update={"options": kept}))
    changes = {
        "arms": tuple(arms),
        "seeds": tuple(seeds) or study.seeds,
        "options": {**study.options, **options},
    }
    study = study.model_copy(update={**changes, "stand_ins": with_stand_ins or study.stand_ins})
    if not with_stand_ins:
        return study
    table = re.sub('"senteval-(?=sts|sickr)', '"', study.model_dump_json())
    for source in map(source_of, named_tasks(study.tasks)):
        table = table.replace(source, stand_ins(source)[0])
    return Study.model_validate_json(table)


def departures(study: Study, published: Study, model: str, options: Mapping[str, Any]) -> list[str]:
    """What is not as in the study's file, in sentences."""
    sentences = []
    if model and set(published.models) - {model}:
        sentences.append(f"The model is {model}, not the study's {' or '.join(published.models)}.")
    if options:
        given = ", ".join(f"{key} = {value}" for key, value in options.items())
        sentences.append(f"Options that differ from the study's: {given}.")
    if study.tasks != published.tasks:
        sentences.append(f"Scored on {', '.join(study.tasks)}, not {', '.join(published.tasks)}.")
    if study.seeds != published.seeds:
        sentences.append(
            f"Seeds {', '.join(map(str, study.seeds))}, not {', '.join(map(str, published.seeds))}."
        )
    return sentences
