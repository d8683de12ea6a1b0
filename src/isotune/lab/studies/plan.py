"""From a study to its runs: every arm at every cell of the grid with every seed, each with its resolved recipe.

An option that the study lays over its arms, or a key of its grid, applies to the arms that have it: a model that is
evaluated as it is has a pooling but no batch size, so it is one line of a table whose others are at several sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pydantic import ValidationError

from isotune.encoder.options import EncoderOptions
from isotune.errors import InputError, unknown
from isotune.lab.studies.study import OWN, START, Arm, Cell, Study, one_line
from isotune.lab.studies.words import in_words
from isotune.recipes import Recipe, TrainingOptions, plan_table, resolve
from isotune.recipes.recipe import RUN_OPTIONS


@dataclass(frozen=True, eq=False)
class Run:
    """One training, or the evaluation of a model as it is.

    Attributes:
        arm: its name.
        cell: where in the grid, by those options that the arm has.
        seed: None for a model as it is.
        model: what it starts from, or the run that it starts from does, as it was named; "" for a new one.
        encoder: how vectors are taken from the model.
        recipe: what is trained, but for the model; None for a model as it is.
        start: the run whose encoder it starts from.
        before: the evaluation of its model as it is, where the study asks for that.
    """

    arm: str
    cell: Cell
    seed: int | None
    model: str
    encoder: EncoderOptions
    recipe: Recipe | None = None
    start: Run | None = None
    before: Run | None = None

    @property
    def title(self) -> str:
        """What it is, in a line."""
        seed = [] if self.seed is None else [f"seed {self.seed}"]
        return ", ".join([in_words(self.arm, self.cell), *seed])


def expand(study: Study, model: str | None = None) -> list[Run]:
    """All runs of a study, each after the one it starts from; `model` takes the place of every model named.

    Raises:
        InputError: an option is one that no arm has, or its value isn't allowed.
    """
    known = {arm.name: _options(arm) for arm in study.arms}
    for key in (*study.options, *study.grid):
        if not any(_has(options, key) for options in known.values()):
            raise unknown("option", key, {option for options in known.values() for option in options})
    runs: list[Run] = []
    for arm in study.arms:
        for key in arm.grid or ():
            if not _has(known[arm.name], key):
                raise unknown(f"option of arm {arm.name}", key, known[arm.name])
        axes = study.grid if arm.grid is None else arm.grid
        axes = {key: values for key, values in axes.items() if _has(known[arm.name], key)}
        laid = {key: value for key, value in study.options.items() if _has(known[arm.name], key)}
        named = model or arm.model or study.model
        for values in product(*axes.values()):
            cell = dict(zip(axes, values, strict=True))
            for seed in study.seeds if arm.trained else (None,):
                start = _start(arm, cell, seed, runs) if arm.start else None
                runs.append(_run(study, arm, {**laid, **arm.options, **cell}, cell, seed, named, start))
    return runs


def _run(
    study: Study, arm: Arm, options: Mapping[str, Any], cell: Cell, seed: int | None, model: str, start: Run | None
) -> Run:
    name = f"arm {arm.name}"
    whole = {key: value for key, value in options.items() if "." not in key}
    elements = {key: value for key, value in options.items() if "." in key}
    if seed is None:
        (table,) = _with_elements([whole], elements, name)
        try:
            encoder = EncoderOptions.model_validate(table)
        except ValidationError as error:
            raise one_line(error, name) from error
        return Run(arm.name, cell, None, model, encoder)
    sources = whole.pop("data", arm.data)
    recipe = resolve(sources, arm.recipe or None, arm.method or None, {**whole, "seed": seed})
    if elements:
        table = recipe.table()
        *stages, encoder_table = _with_elements([*table["stages"], table["encoder"]], elements, name)
        recipe = Recipe.from_table({**table, "encoder": encoder_table, "stages": stages}, name)
    if recipe.scratch and (arm.start or arm.model):
        raise InputError(f"{name}: its recipe makes a model from scratch; give it no {'start' if start else 'model'}")
    model = start.model if start else "" if recipe.scratch else model
    asked = any(score.startswith(START) for score in study.scores)
    before = start or (Run(f"{arm.name}, start", cell, None, model, recipe.encoder) if asked and model else None)
    return Run(arm.name, cell, seed, model, recipe.encoder, recipe, start, before)


def _start(arm: Arm, cell: Cell, seed: int | None, runs: Sequence[Run]) -> Run:
    """The run of the arm that this one starts from."""
    found = [run for run in runs if (run.arm, run.seed) == (arm.start, seed) and run.cell.items() <= cell.items()]
    if not found:
        raise InputError(
            f"{in_words(arm.name, cell)}: it starts from {arm.start}, which has no run at this place of the grid; give "
            f"{arm.start} a grid of its own, grid = {{}} for a single cell"
        )
    return found[0]


def _options(arm: Arm) -> set[str]:
    """The names of the options that an arm has."""
    if not arm.trained:
        return set(EncoderOptions.model_fields)
    plan = Recipe.from_table(plan_table(arm.recipe or None, arm.method or None, None), f"arm {arm.name}")
    methods = {key for stage in plan.stages for key in type(stage.options).model_fields}
    return {*RUN_OPTIONS, *EncoderOptions.model_fields, *TrainingOptions.model_fields, *methods} - OWN


def _has(options: Collection[str], key: str) -> bool:
    return key.partition(".")[0] in options


def _with_elements(tables: Sequence[Mapping[str, Any]], elements: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The tables with elements of their lists changed, in each that has the list."""
    result = [dict(table) for table in tables]
    for key, value in elements.items():
        option, _, place = key.partition(".")
        having = [table for table in result if isinstance(table.get(option), tuple | list)]
        if not having:
            raise InputError(f"{name}: {key}: {option} has no values to change one of; give {option} itself")
        for table in having:
            values = list(table[option])
            if not place.isdecimal() or int(place) >= len(values):
                raise InputError(f"{name}: {key}: {option} has {len(values)} values, from {option}.0 on")
            values[int(place)] = value
            table[option] = values
    return result
