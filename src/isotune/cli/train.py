"""`isotune train`: an option for every field of the chosen recipe.

Which options there are, and the defaults that their help shows, depend on --recipe, --method and --model. So
`train_command` reads these three first. The function's keyword options are a typed dictionary with an entry for every
field of that recipe (PEP 692), and hold those that were given.
"""

import os
import signal
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack, get_type_hints

from cyclopts import Group, Parameter
from pydantic import BaseModel

from isotune.cli.parameters import PAIRS, SOURCES, STAND_INS, Name
from isotune.encoder.options import POOLINGS
from isotune.errors import InputError
from isotune.methods import METHODS, OPTIONS
from isotune.recipes import (
    DEFAULT_RECIPE,
    ENCODER_RECIPE,
    RUN_OPTIONS,
    Recipe,
    plan_table,
    resolve,
)
from isotune.recipes.training import WITHOUT_STEPS, AsReleased, TrainingOptions
from isotune.views import AUGMENTATIONS

RUN, ROWS, TRAINING = (
    Group("Run", sort_key=1),
    Group("Which rows", sort_key=5),
    Group("Training", sort_key=4),
)
GROUPS = {  # where training options, and some of RUN, stand; all others stand in TRAINING
    RUN: ("epochs", "steps"),
    ROWS: ("sample", "min_words", "min_score", "positive"),
    Group("Which step is kept", sort_key=6): ("eval_every", "patience", "most_forgotten"),
    Group("Optimiser", sort_key=7): (
        "rate_width",
        "weight_decay",
        "betas",
        "epsilon",
        "max_gradient_norm",
    ),
    Group("Computing"): ("precision", "chunk_size", "keep_checkpoints"),
}
RECIPE_FLAGS = RUN_OPTIONS[1:]  # options that are fields of the recipe itself, but for the text

TEXT = f"The text to train on: {SOURCES}. A pattern is texts/*.txt, say; a dataset stsb-open:train or hub:OWNER/NAME."
OUT = "A new folder for the run: encoder, report, metrics, and checkpoints until the end. Unset: runs/RECIPE-DATE-TIME."
RECIPE = (
    "The name of a recipe (isotune recipes lists them) or a TOML file. "
    f"Unset: {ENCODER_RECIPE} for a finished encoder (its folder has modules.json), {DEFAULT_RECIPE} for any other "
    "model, the bundled one included."
)
PAIRED = (
    "The columns of two texts that belong together, such as title body or question answer. Without --recipe "
    "and --method, the recipe is adapt-pairs for a finished encoder, and pairs for any other model. "
    "Each text has to find the other among those of other rows."
)
METHOD = "Train with this method and its default options, in place of a recipe."
RESUME = "Resume the run in --out. No other option is allowed."
DRY_RUN = "Only print the recipe of the run, with every option written out, in TOML."

LISTED: dict[str, Iterable[str]] = {
    "pooling": POOLINGS,
    "augmentations": AUGMENTATIONS,
}  # the help has their names
METAVARS = {
    "model": "NAME",
    "dev": "NAME",
    "tasks": "NAME...",
    "prompt": "TEXT",
    "time_limit": "TIME",
}


def train_command(words: Sequence[str]) -> Callable[..., int]:
    """The function behind `isotune train`, with an option for every field of the recipe that the words choose."""
    plan = _chosen_recipe(words)
    given = _options(plan)
    about = [f"{name}: {(OPTIONS[name].__doc__ or '').partition(chr(10))[0]}" for name in METHODS]
    methods = Parameter(
        choices=tuple(METHODS),
        show_choices=False,
        group=Group("Methods", "\n".join(about), sort_key=8),
    )

    def train(
        *text: Annotated[Name, Parameter(help=TEXT)],
        out: Annotated[Path | None, Parameter(help=OUT, group=RUN, metavar="DIR")] = None,
        recipe: Annotated[Name | None, Parameter(help=RECIPE, group=RUN, metavar="NAME")] = None,
        method: Annotated[str | None, Parameter(help=METHOD, metavar="NAME"), methods] = None,
        pairs: Annotated[
            tuple[str, str] | None, Parameter(help=PAIRED, group=RUN, metavar="COLUMN COLUMN")
        ] = None,
        stand_ins: Annotated[bool, STAND_INS, Parameter(group=ROWS)] = False,
        resume: Annotated[bool, Parameter(help=RESUME, group=RUN)] = False,
        dry_run: Annotated[bool, Parameter(help=DRY_RUN, group=RUN)] = False,
        **options: Unpack[given],  # type: ignore[misc, valid-type]
    ) -> int:
        from isotune.training import train as train_encoder
        from isotune.training.request import default_folder

        if out is None:
            if resume:
                raise InputError("--resume needs --out: the folder of the run to resume")
            if os.environ.get("WORLD_SIZE", "1") != "1":
                raise InputError(
                    "a run of several processes needs --out: the folder that all of them know"
                )
            out = default_folder(recipe, method, options.get("model"), pairs)
        if dry_run:
            import tomli_w

            if resume:
                raise InputError("--dry-run is for a new run; leave out --resume")
            plan_of_run = resolve(
                text, recipe, method, options, pairs=pairs, with_stand_ins=stand_ins
            )
            print(tomli_w.dumps(plan_of_run.table()), end="")
            return 0
        options |= {"stand_ins": stand_ins, "resume": resume}
        result = train_encoder(text, out=out, recipe=recipe, method=method, pairs=pairs, **options)
        if os.environ.get("RANK", "0") == "0" and result.report:
            print(result.report)
        return 128 + signal.Signals[result.stopped] if result.stopped else 0

    return train


def where_option_is(option: str, words: Sequence[str]) -> str:
    """Where an option is that the recipe of the words does not have; empty if it is nowhere."""
    field = option.removeprefix("--").replace("-", "_").removeprefix("no_")
    if methods := [name for name in METHODS if field in OPTIONS[name].model_fields]:
        return f"{option} is an option of another method: --method {' or '.join(methods)}."
    if field in AsReleased.model_fields:
        return f"{option} is no flag: {field} stands in a recipe's file, in the table as_released of a stage."
    if field in TrainingOptions.model_fields:
        without = _chosen_recipe(words).stages[0].method
        return (
            f"{option} is an option of methods with steps, and {without} has none; choose another --recipe, or a "
            "--method such as simcse."
        )
    return ""


def _chosen_recipe(words: Sequence[str]) -> Recipe:
    """The recipe that --recipe, --method and --model choose, before any other option changes it."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("--recipe", "--method", "--model"):
        parser.add_argument(
            option, nargs="?"
        )  # without a value: the error is that of the call itself
    parser.add_argument("--pairs", nargs="?", const=True)
    chosen, _ = parser.parse_known_args(words)  # all other words are ignored
    table = plan_table(chosen.recipe, chosen.method, chosen.model, chosen.pairs)
    return Recipe.from_table(table, chosen.recipe or chosen.method or "recipe")


def _options(plan: Recipe) -> Any:
    """A typed dictionary with the type of every option of a recipe, and its help."""
    options = _of_model(plan, RUN, RECIPE_FLAGS) | _of_model(
        plan.encoder, Group("Encoder", sort_key=2)
    )
    for stage in plan.stages:
        about = "isotune train --method NAME --help shows the options of another method."
        options |= _of_model(stage.options, Group(f"Method {stage.method}", help=about, sort_key=3))
    with_steps = any(stage.options.takes_steps for stage in plan.stages)
    names = (
        [name for name in TrainingOptions.model_fields if name != "as_released"]
        if with_steps
        else WITHOUT_STEPS
    )
    options |= _of_model(plan.stages[0].training, TRAINING, names)
    return TypedDict("options", options, total=False)  # type: ignore[operator]


def _of_model(options: BaseModel, panel: Group, names: Iterable[str] = ()) -> dict[str, Any]:
    """The types of these fields, or of all; the recipe checks their limits. The help shows the recipe's values."""
    model = type(options)
    types = get_type_hints(model)
    annotated: dict[str, Any] = {}
    for name in names or model.model_fields:
        value = getattr(options, name)
        text = " ".join(described(model, name).split())
        listed = f" [choices: {', '.join(LISTED[name])}]" if name in LISTED else ""
        parameter = Parameter(
            help=(text if value in (None, (), {}) else text.partition(" Unset:")[0]) + listed,
            group=next((group for group, those in GROUPS.items() if name in those), panel),
            metavar=METAVARS.get(name),
            consume_multiple=1,
            negative=None if types[name] is bool else (),
            show_default=_as_typed(name, value) or False,
        )
        annotated[name] = (
            Annotated[types[name], parameter, PAIRS]
            if name == "columns"
            else Annotated[types[name], parameter]
        )
    return annotated


def described(model: type[BaseModel], name: str) -> str:
    """The docstring of a field; of a field without one, that of the class above."""
    fields = (getattr(part, "model_fields", {}).get(name) for part in model.__mro__)
    return next((field.description for field in fields if field and field.description), "")


def _as_typed(name: str, value: object) -> str:
    match value:
        case bool():
            return f"--{'' if value else 'no-'}{name.replace('_', '-')}"
        case dict():
            return " ".join(f"{key}={column}" for key, column in value.items())
        case tuple():
            return " ".join(map(str, value))
    return "" if value is None else str(value)
