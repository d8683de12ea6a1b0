"""`isotune train`: an option for every field of the chosen recipe.

Which options there are, and the defaults that their help shows, depend on --recipe, --method,
--model, --pairs and --teachers. So `train_command` reads these first. The function's keyword
options are a typed dictionary with an entry for every field of that recipe (PEP 692), and hold
those that were given.
"""

import os
import signal
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    TEACHER_RECIPES,
    Recipe,
    resolve,
    starting_table,
)
from isotune.recipes.training import WITHOUT_STEPS, AsReleased, TrainingOptions
from isotune.views import AUGMENTATIONS

RUN = Group("Run", sort_key=1)
ROWS = Group("Which rows", sort_key=5)
TRAINING = Group("Training", sort_key=4)
# Training options stand in these groups of the help; all others stand in TRAINING.
GROUPS = {
    RUN: ("epochs", "steps"),
    ROWS: ("sample", "min_words", "min_score", "positive"),
    Group("Which step is kept", sort_key=6): (
        "eval_every",
        "patience",
        "most_forgotten",
        "interpolations",
        "confidence",
    ),
    Group("Optimiser", sort_key=7): (
        "rate_width",
        "weight_decay",
        "betas",
        "epsilon",
        "max_gradient_norm",
    ),
    Group("Computing"): ("precision", "chunk_size", "keep_checkpoints"),
}
# These options are fields of the recipe itself. The first two, the text and the shares of its
# sources, have no flag.
RECIPE_FLAGS = RUN_OPTIONS[2:]

TEXT = (
    f"The text to train on: {SOURCES}. A pattern is texts/*.txt, say; a dataset stsb-open:train or "
    "hub:OWNER/NAME. With notes.txt 'wiki.txt*2', two rows of the second source are taken for each "
    "row of the first."
)
OUT = (
    "A new folder for the run: encoder, report, metrics, and checkpoints until the end. Unset: "
    "runs/RECIPE-DATE-TIME."
)
RECIPE = (
    "The name of a recipe (isotune recipes lists them) or a TOML file. "
    f"Unset: {ENCODER_RECIPE} for a finished encoder (its folder has modules.json), "
    f"{DEFAULT_RECIPE} for any other model, the bundled one included; with --teachers "
    f"{TEACHER_RECIPES[ENCODER_RECIPE]} and {TEACHER_RECIPES[DEFAULT_RECIPE]}."
)
PAIRED = (
    "The columns of two texts that belong together, such as title body or question answer. "
    "Without --recipe and --method, the recipe is adapt-pairs for a finished encoder, and pairs "
    "for any other model. Each text has to find the other among those of other rows."
)
METHOD = "Train with this method and its default options, in place of a recipe."
SHOWN_METHODS = ("classifier", "pairs", "crops", "cosent", "distil", "simcse", "consert")
RESUME = "Resume the run in --out. No other option is allowed."
DRY_RUN = "Only print the recipe of the run, with every option written out, in TOML."

# The help lists the names that these options take.
LISTED: dict[str, Iterable[str]] = {"pooling": POOLINGS, "augmentations": AUGMENTATIONS}
METAVARS = {
    "model": "NAME",
    "dev": "NAME",
    "tasks": "NAME...",
    "prompt": "TEXT",
    "time_limit": "TIME",
}


def train_command(words: Sequence[str]) -> Callable[..., int]:
    """The function behind `isotune train`.

    It has an option for every field of the recipe that the words choose.
    """
    given = _options(_chosen_recipe(words))
    methods = Parameter(
        choices=tuple(METHODS),
        show_choices=False,
        group=Group("Methods", _about_methods(), sort_key=8),
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

        if out is None:
            out = _default_folder(recipe, method, options, pairs, resume)
        if dry_run:
            if resume:
                raise InputError("--dry-run is for a new run; leave out --resume")
            resolved = resolve(text, recipe, method, options, pairs=pairs, with_stand_ins=stand_ins)
            _print_recipe(resolved)
            return 0
        options |= {"stand_ins": stand_ins, "resume": resume}
        result = train_encoder(text, out=out, recipe=recipe, method=method, pairs=pairs, **options)
        if result.report and os.environ.get("RANK", "0") == "0":
            print(result.report)
        if result.stopped:
            return 128 + signal.Signals[result.stopped]
        return 0

    return train


def _about_methods() -> str:
    """A line for each method that most people need: the first line of what its options say."""
    lines = []
    for name in SHOWN_METHODS:
        about, *_ = (OPTIONS[name].__doc__ or "").split("\n")
        lines.append(f"{name}: {about}")
    lines.append("isotune recipes --methods lists all methods.")
    return "\n".join(lines)


def _default_folder(
    recipe: str | None,
    method: str | None,
    options: Mapping[str, Any],
    pairs: object,
    resume: bool,
) -> Path:
    """The folder of a run that is given none, where one process alone has to know it."""
    from isotune.training.request import default_folder

    if resume:
        raise InputError("--resume needs --out: the folder of the run to resume")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise InputError("a run of several processes needs --out: the folder that all of them know")
    return default_folder(recipe, method, options.get("model"), pairs, options.get("teachers"))


def _print_recipe(recipe: Recipe) -> None:
    import tomli_w

    print(tomli_w.dumps(recipe.table()), end="")


def where_option_is(option: str, words: Sequence[str]) -> str:
    """Where an option is that the recipe of the words does not have; empty if it is nowhere."""
    field = option.removeprefix("--").replace("-", "_").removeprefix("no_")
    methods = [name for name in METHODS if field in OPTIONS[name].model_fields]
    if methods:
        return f"{option} is an option of another method: --method {' or '.join(methods)}."
    if field in AsReleased.model_fields:
        return (
            f"{option} is no flag: {field} stands in a recipe's file, in the table as_released "
            "of a stage."
        )
    if field in TrainingOptions.model_fields:
        method = _chosen_recipe(words).stages[0].method
        return (
            f"{option} is an option of methods with steps, and {method} has none; choose another "
            "--recipe, or a --method such as simcse."
        )
    return ""


def _chosen_recipe(words: Sequence[str]) -> Recipe:
    """The recipe that the words choose, before any other option changes it."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    # An option may lack its value here: cyclopts says so later.
    for option in ("--recipe", "--method", "--model"):
        parser.add_argument(option, nargs="?")
    for option in ("--pairs", "--teachers"):
        parser.add_argument(option, nargs="?", const=True)
    # All other words are ignored.
    chosen, _ = parser.parse_known_args(words)
    table = starting_table(
        chosen.recipe, chosen.method, chosen.model, chosen.pairs, chosen.teachers
    )
    return Recipe.from_table(table, chosen.recipe or chosen.method or "recipe")


def _options(recipe: Recipe) -> Any:
    """A typed dictionary with the type of every option of a recipe, and its help."""
    options = _options_of(recipe, RUN, RECIPE_FLAGS)
    options |= _options_of(recipe.encoder, Group("Encoder", sort_key=2))
    for stage in recipe.stages:
        about = "isotune train --method NAME --help shows the options of another method."
        group = Group(f"Method {stage.method}", help=about, sort_key=3)
        options |= _options_of(stage.options, group)
    options |= _options_of(recipe.stages[0].training, TRAINING, _training_fields(recipe))
    return TypedDict("options", options, total=False)  # type: ignore[operator]


def _training_fields(recipe: Recipe) -> Sequence[str]:
    """The training options that have a flag: most need a stage with steps."""
    if not any(stage.options.takes_steps for stage in recipe.stages):
        return WITHOUT_STEPS
    fields = list(TrainingOptions.model_fields)
    fields.remove("as_released")
    return fields


def _options_of(options: BaseModel, panel: Group, names: Sequence[str] = ()) -> dict[str, Any]:
    """The types of these fields, or of all. The recipe checks their limits."""
    model = type(options)
    types = get_type_hints(model)
    annotated: dict[str, Any] = {}
    for name in names or list(model.model_fields):
        parameter = Parameter(
            help=_help(model, name, getattr(options, name)),
            group=_group(name, panel),
            metavar=METAVARS.get(name),
            consume_multiple=1,
            negative=None if types[name] is bool else (),
            show_default=_as_typed(name, getattr(options, name)) or False,
        )
        if name == "columns":
            annotated[name] = Annotated[types[name], parameter, PAIRS]
        else:
            annotated[name] = Annotated[types[name], parameter]
    return annotated


def _help(model: type[BaseModel], name: str, value: object) -> str:
    """The description of a field, without what holds if the field is unset where it is set."""
    text = " ".join(described(model, name).split())
    if value not in (None, (), {}):
        text, *_ = text.split(" Unset:")
    if name in LISTED:
        text += f" [choices: {', '.join(LISTED[name])}]"
    return text


def _group(name: str, panel: Group) -> Group:
    for group, names in GROUPS.items():
        if name in names:
            return group
    return panel


def described(model: type[BaseModel], name: str) -> str:
    """The docstring of a field; of a field without one, that of the class above."""
    for part in model.__mro__:
        field = getattr(part, "model_fields", {}).get(name)
        if field and field.description:
            return field.description
    return ""


def _as_typed(name: str, value: object) -> str:
    """A value as it is written on the command line; empty for None."""
    match value:
        case None:
            return ""
        case bool():
            negation = "" if value else "no-"
            return f"--{negation}{name.replace('_', '-')}"
        case dict():
            return " ".join(f"{key}={column}" for key, column in value.items())
        case tuple():
            return " ".join(map(str, value))
    return str(value)
