"""The runs of a study, each with its complete recipe, and what they read. The hub is not asked.

Every arm is run at every cell of the grid with every seed. An option of the study or of its grid
applies to the arms that have it. An untrained model has a pooling but no batch size, so it is a
single line of a table whose other arms are run at several batch sizes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, TypeVar

from pydantic import ValidationError

from isotune.data import DATASETS, stand_ins
from isotune.encoder import EncoderOptions
from isotune.errors import InputError, invalid, unknown
from isotune.evaluation import named_tasks, source_of
from isotune.lab.studies.study import (
    EVALUATIONS,
    START,
    STUDY_KEYS,
    Arm,
    Cell,
    Study,
    refuse_study_keys,
    refuse_unknown,
)
from isotune.lab.studies.wording import line_title
from isotune.methods import OPTIONS
from isotune.recipes import RUN_OPTIONS, Inputs, Recipe, TrainingOptions, resolve, starting_table

T = TypeVar("T")
LENGTHS = frozenset({"epochs", "steps"})
"""The options that say how long a run trains. A run has one of them."""

PACE = LENGTHS | {"patience", "eval_every"}
"""The options that a number of updates takes the place of."""

CHOICE = ("early_stopping", "whole_epochs", "dev_layers")
"""What released scripts do differently when they choose a step."""


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One training, or the evaluation of an untrained model."""

    arm: str
    """The name of its arm."""

    cell: Cell
    """Its place in the grid, with only the options that the arm has."""

    seed: int | None
    """None for an untrained model, unless the seed is its classifiers'."""

    model: str
    """The pretrained model at the beginning of its chain of runs."""

    encoder: EncoderOptions
    """How vectors are taken from the model."""

    recipe: Recipe | None = None
    """What is trained, without the model; None for an untrained model."""

    start: PlannedRun | None = None
    """The run whose encoder it starts from."""

    baseline: PlannedRun | None = None
    """The evaluation of what it starts from, if the study has scores of that."""

    classifier_seed: int | None = None
    """The seed of SentEval's classifiers, if it is not SentEval's own."""

    turn: tuple[int, int] = (0, 0)
    """The place of its seed in the study, and of its cell in the arm."""

    @property
    def title(self) -> str:
        """Its arm, cell and seed, in words."""
        title = line_title(self.arm, self.cell)
        if self.seed is None:
            return title
        return f"{title}, seed {self.seed}"

    @property
    def inputs(self) -> Inputs:
        """What all stages read, each source and model once.

        Dev data that choose a stage's best step are among it.
        """
        if self.recipe is None:
            return Inputs((), (), ())
        data: list[str] = []
        dev: list[str] = []
        models: list[str] = []
        for stage in map(self.recipe.inputs, self.recipe.stages):
            data += stage.data
            dev += stage.dev or _dev_sources(self.recipe)
            models += stage.models
        return Inputs(_each_once(data), _each_once(dev), _each_once(models))


@dataclass(frozen=True)
class _Place:
    """A cell of the grid with a seed."""

    cell: Cell
    seed: int | None
    turn: tuple[int, int]


def plan_runs(study: Study, model: str | None = None) -> list[PlannedRun]:
    """All runs of a study, each after the run that it starts from.

    `model` replaces every model of the study.
    """
    options_by_arm = {arm.name: _options_of(arm) for arm in study.arms}
    _check_options(study, options_by_arm)
    runs: list[PlannedRun] = []
    for arm in study.arms:
        options = options_by_arm[arm.name]
        refuse_unknown(f"option of arm {arm.name}", arm.grid or (), options)
        shared = _only(study.options, options)
        for place in _places(study, arm, options):
            start = None
            if arm.start:
                start = _start(arm, place, runs)
            values = {**shared, **_own_options(arm), **place.cell}
            runs.append(_planned(study, arm, place, values, start=start, model=model))
    return runs


def _own_options(arm: Arm) -> dict[str, Any]:
    """The options of an arm, and its data among them."""
    if not arm.data:
        return arm.options
    return {"data": arm.data, **arm.options}


def _check_options(study: Study, options_by_arm: Mapping[str, set[str]]) -> None:
    """Refuses an option of the study or of its grid that no arm has."""
    allowed = set(chain(*options_by_arm.values()))
    ignored = set()
    if not any(arm.trained for arm in study.arms):
        # Options of a training do nothing in a study that trains nothing.
        ignored = _run_options()
    for key in (*study.options, *study.grid):
        if key not in allowed | ignored:
            raise unknown("option", key, allowed)


def _run_options() -> set[str]:
    return {*RUN_OPTIONS, *TrainingOptions.model_fields}


def _options_of(arm: Arm) -> set[str]:
    """The names of the options that an arm has."""
    if not arm.trained:
        return set(EncoderOptions.model_fields)
    table = starting_table(arm.recipe or None, arm.method or None, None)
    recipe = Recipe.from_table(table, f"arm {arm.name}")
    options = {*_run_options(), *EncoderOptions.model_fields}
    for stage in recipe.stages:
        options |= type(stage.options).model_fields.keys()
    if all(stage.named_sources for stage in recipe.stages):
        # No stage would read the recipe's data.
        options.remove("data")
    return options - STUDY_KEYS


def _places(study: Study, arm: Arm, options: set[str]) -> Iterator[_Place]:
    """The places of an arm's runs: every cell of its grid, and there every seed."""
    grid = arm.grid
    if grid is None:
        grid = study.grid
    axes = _only(grid, options)
    seeds: Sequence[int | None] = (None,)
    if arm.trained or study.classifier_seeds:
        seeds = study.seeds
    for cell_number, values in enumerate(product(*axes.values())):
        cell = dict(zip(axes, values, strict=True))
        for seed_number, seed in enumerate(seeds):
            yield _Place(cell, seed, turn=(seed_number, cell_number))


def _start(arm: Arm, place: _Place, runs: Sequence[PlannedRun]) -> PlannedRun:
    """The run whose encoder an arm's run starts from."""
    for run in runs:
        same_arm_and_seed = run.arm == arm.start and run.seed == place.seed
        if same_arm_and_seed and run.cell.items() <= place.cell.items():
            return run
    raise InputError(
        f"{line_title(arm.name, place.cell)}: it starts from {arm.start}, which has no run at this "
        f"place of the grid; give {arm.start} a grid of its own, grid = {{}} for a single cell"
    )


def _planned(
    study: Study,
    arm: Arm,
    place: _Place,
    options: Mapping[str, Any],
    *,
    start: PlannedRun | None,
    model: str | None,
) -> PlannedRun:
    """Plans the run of an arm at a place, with these options."""
    if arm.trained:
        recipe = _recipe(study, arm, {**options, "seed": place.seed})
        encoder = recipe.encoder
    else:
        recipe = None
        encoder = _encoder_options(arm, options)
    first_model = model or arm.model or study.model
    if start:
        first_model = start.model
    baseline = start
    if recipe and not start and any(score.startswith(START) for score in study.scores):
        baseline = PlannedRun(
            arm=f"{arm.name}, start",
            cell=place.cell,
            seed=None,
            model=first_model,
            encoder=encoder,
        )
    return PlannedRun(
        arm=arm.name,
        cell=place.cell,
        seed=place.seed,
        model=first_model,
        encoder=encoder,
        recipe=recipe,
        start=start,
        baseline=baseline,
        classifier_seed=place.seed if study.classifier_seeds else None,
        turn=place.turn,
    )


def _recipe(study: Study, arm: Arm, options: dict[str, Any]) -> Recipe:
    sources = options.pop("data", ())
    if isinstance(sources, str):
        sources = (sources,)
    recipe = resolve(
        sources,
        arm.recipe or None,
        arm.method or None,
        options,
        with_stand_ins=study.stand_ins,
    )
    if study.updates:
        recipe = _with_updates(recipe, study.updates)
    # The result of a study must not depend on which precision is fast on the machine.
    return recipe.with_precision("float32")


def _with_updates(recipe: Recipe, updates: int) -> Recipe:
    """The recipe with this number of updates, which the stages that make steps share equally.

    No stage ends sooner, and all choose their step in the same way among as many evaluations.
    """
    table = recipe.table()
    stages = [stage for stage in table["stages"] if OPTIONS[stage["method"]].takes_steps]
    for number, stage in enumerate(stages):
        for option in ("epochs", "patience"):
            stage.pop(option, None)
        # The first stages take what can't be divided.
        stage["steps"] = (updates + len(stages) - 1 - number) // len(stages)
        stage["eval_every"] = max(1, stage["steps"] // EVALUATIONS)
        for option in CHOICE:
            stage["as_released"].pop(option, None)
    return Recipe.from_table(table)


def _encoder_options(arm: Arm, options: Mapping[str, Any]) -> EncoderOptions:
    try:
        return EncoderOptions.model_validate(options)
    except ValidationError as error:
        raise invalid(f"arm {arm.name}", error) from error


def _dev_sources(recipe: Recipe) -> tuple[str, ...]:
    """The source of the scored pairs that choose a step; none if the recipe has no such pairs."""
    task = recipe.dev_task
    if not task:
        return ()
    if task.partition(":")[0] in DATASETS:
        return (task,)
    return (source_of(task),)


def _only(table: Mapping[str, T], keys: Collection[str]) -> dict[str, T]:
    """The entries of a table that have one of these keys, in the order of the table."""
    return {key: value for key, value in table.items() if key in keys}


def _each_once(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def needs(study: Study, model: str = "") -> tuple[list[str], list[str]]:
    """The datasets and files that a study reads, and its models.

    `model` replaces every model of the study.
    """
    # All seeds read the same.
    of_one_seed = study.model_copy(update={"seeds": study.seeds[:1]})
    runs = plan_runs(of_one_seed, model)
    sources = list(study.statistics)
    if runs and study.tasks:
        sources += [source_of(task) for task in named_tasks(study.tasks)]
    models = []
    for run in runs:
        sources += [*run.inputs.data, *run.inputs.dev]
        models += [run.model, *run.inputs.models]
    return list(_each_once(sources)), list(_each_once(models))


def changed_study(
    study: Study,
    seeds: Sequence[int],
    options: Mapping[str, Any],
    *,
    with_stand_ins: bool = False,
    updates: int | None = None,
) -> Study:
    """A study with other seeds, options, data and updates, as far as these are given.

    The options stand in place of the study's and of its arms'. With stand-ins, the official text of
    the STS tasks stands in for SentEval's.
    """
    refuse_study_keys(options)
    _refuse_varied(study, options)
    if updates is not None:
        _check_updates(study, updates, options)
    replaced = set(options)
    if replaced & LENGTHS:
        replaced |= LENGTHS
    arms = []
    for arm in study.arms:
        kept: dict[str, Any] = {
            "options": _only(arm.options, arm.options.keys() - replaced),
        }
        if "data" in replaced:
            kept["data"] = ()
        arms.append(arm.model_copy(update=kept))
    changes = {
        "arms": tuple(arms),
        "seeds": tuple(seeds) or study.seeds,
        "options": {**study.options, **options},
        "updates": updates or study.updates,
        "stand_ins": with_stand_ins or study.stand_ins,
    }
    changed = study.model_copy(update=changes)
    if not with_stand_ins:
        return changed
    table = re.sub('(?<=[":])senteval-(?=sts|sickr)', "", changed.model_dump_json())
    for task in named_tasks(study.tasks):
        source = source_of(task)
        table = table.replace(source, stand_ins(source)[0])
    return Study.model_validate_json(table)


def _check_updates(study: Study, updates: int, options: Collection[str]) -> None:
    """Refuses a number of updates that is too low, or that something else contradicts."""
    if updates < EVALUATIONS:
        raise InputError(f"updates {updates}: {EVALUATIONS} or more, for as many evaluations")
    for option in sorted(PACE.intersection(options)):
        raise InputError(f"updates and option {option} are both given; give one of them")
    _refuse_varied(study, PACE, "updates")


def _refuse_varied(study: Study, options: Iterable[str], given: str = "") -> None:
    """Refuses options that the study or one of its arms runs at several values.

    `given` names what sets the options, if that is not an option.
    """
    grids = {"the study": study.grid}
    for arm in study.arms:
        grids[f"arm {arm.name}"] = arm.grid or {}
    for key, (place, grid) in product(options, grids.items()):
        if key in grid:
            name = given or f"option {key}"
            raise InputError(f"{name} can't be given: {place} runs {key} at several values")


def departures(study: Study, published: Study, model: str, options: Mapping[str, Any]) -> list[str]:
    """What is not as in the study's file, in sentences."""
    sentences = []
    if model and set(published.models) - {model}:
        published_models = " or ".join(published.models)
        sentences.append(f"The model is {model}, not the study's {published_models}.")
    if options:
        given = ", ".join(f"{key} = {value}" for key, value in options.items())
        sentences.append(f"Options that differ from the study's: {given}.")
    if study.added:
        sentences.append(f"Added to the study's arms: {', '.join(sorted(study.added))}.")
    if study.updates != published.updates:
        sentences.append(
            f"Every training makes {study.updates} updates, with {EVALUATIONS} evaluations of "
            "each stage, in place of the length of its recipe."
        )
    if study.tasks != published.tasks:
        sentences.append(f"Scored on {', '.join(study.tasks)}, not {', '.join(published.tasks)}.")
    if study.seeds != published.seeds:
        seeds = ", ".join(map(str, study.seeds))
        published_seeds = ", ".join(map(str, published.seeds))
        sentences.append(f"Seeds {seeds}, not {published_seeds}.")
    return sentences
