"""`isotune train`: an option for every field of the chosen recipe.

Which options there are, and the defaults that their help shows, depend on --recipe, --method and --model. So
`train_command` reads these three first and gives the function a keyword parameter for every field of that recipe.
"""

from __future__ import annotations

import inspect
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cyclopts import App, Group, Parameter
from pydantic import BaseModel

from isotune.cli.option_names import RUN_OPTIONS, given_options
from isotune.cli.parameters import COLUMNS, COLUMNS_FORM, key_values
from isotune.cli.parser import one_line_errors
from isotune.errors import InputError
from isotune.methods import METHODS
from isotune.recipes import DEFAULT_RECIPE, ENCODER_RECIPE, Recipe, plan_table, recipe_of_model, resolve
from isotune.recipes.training import WITHOUT_STEPS, TrainingOptions

RUN = Group("Run", sort_key=1)

TEXT = (
    "The text to train on: files (.txt, .csv, .tsv, .jsonl or .parquet, also compressed as .gz), file patterns such as "
    "texts/*.txt, named datasets such as stsb-open:train, datasets on the Hugging Face hub as hub:OWNER/NAME, or - for "
    "standard input."
)
OUT = "A new folder for the run: encoder, report, metrics and checkpoints. Unset: runs/METHOD-DATE-TIME."
RECIPE = (
    "The name of a recipe (isotune recipes lists them) or a TOML file. "
    f"Unset: {ENCODER_RECIPE} for a finished encoder (its folder has modules.json), {DEFAULT_RECIPE} for any other "
    "model, the bundled one included."
)
METHOD = "Train with this method and its default options, instead of a recipe."
STAND_INS = (
    "Train on data that stand in for the recipe's published data where these are only on the Hugging Face hub, such as "
    "nli-sample for all-nli. The report says so."
)
RESUME = "Resume the run in --out. No other option is allowed."
DRY_RUN = "Only say what the run would read, fetch and write."

METAVARS = {"model": "NAME", "dev": "NAME", "tasks": "NAME...", "prompt": "TEXT"}


def train_command(words: Sequence[str]) -> Callable[..., int]:
    """The function behind `isotune train`, with a keyword parameter for every option of the recipe in the words."""
    plan = _chosen_recipe(words)
    flags = _flags(plan, RUN, RUN_OPTIONS) | _flags(plan.encoder, Group("Encoder", sort_key=2))
    for stage in plan.stages:
        about = "isotune train --method NAME --help shows the options of another method."
        flags |= _flags(stage.options, Group(f"Method {stage.method}", help=about, sort_key=3))
    flags |= _training_flags(plan)

    def train(
        *text: Annotated[str, Parameter(help=TEXT)],
        out: Annotated[Path | None, Parameter(help=OUT, group=RUN, metavar="DIR")] = None,
        recipe: Annotated[str | None, Parameter(help=RECIPE, group=RUN, metavar="NAME")] = None,
        method: Annotated[str | None, Parameter(help=METHOD, group=RUN, choices=tuple(METHODS))] = None,
        stand_ins: Annotated[bool, Parameter(help=STAND_INS, group=RUN)] = False,
        resume: Annotated[bool, Parameter(help=RESUME, group=RUN)] = False,
        dry_run: Annotated[bool, Parameter(help=DRY_RUN, group=RUN)] = False,
        **options: Any,
    ) -> int:
        """Train a sentence encoder on text and report what it gained."""
        from isotune.training import train as train_encoder

        if resume and out is None:
            raise InputError("--resume needs --out: the folder of the run to resume")
        several, leads = os.environ.get("WORLD_SIZE", "1") != "1", os.environ.get("RANK", "0") == "0"
        if several and out is None:
            raise InputError("a run of several processes needs --out: the folder that all of them know")
        out = out or Path("runs", f"{plan.stages[0].method}-{time.strftime('%Y%m%d-%H%M%S')}")
        if "columns" in options:
            options["columns"] = key_values("--columns", options["columns"], COLUMNS_FORM)
        if dry_run:
            from isotune.cli.dry_run import describe

            if resume:
                raise InputError("--dry-run is for a new run; leave out --resume")
            recipe = _without_network(recipe, method, options.get("model"))
            print("\n".join(describe(resolve([*text], recipe, method, options, with_stand_ins=stand_ins), out)))
            return 0
        options |= {"stand_ins": stand_ins, "resume": resume}
        result = train_encoder(text, out=out, recipe=recipe, method=method, **options)
        if leads:
            print(result.report)
        return 128 + signal.Signals[result.stopped] if result.stopped else 0

    # cyclopts makes a flag of every parameter in the signature. The values of `flags` arrive in `options`.
    signature = inspect.signature(train, eval_str=True)
    parameters = {**signature.parameters, **flags}
    del parameters["options"]
    _refuse_options_of_other_methods(words, parameters, plan)
    train.__signature__ = signature.replace(parameters=[*parameters.values()])  # type: ignore[attr-defined]
    return train


def _chosen_recipe(words: Sequence[str]) -> Recipe:
    """The recipe that --recipe, --method and --model choose, before any other option changes it."""
    app = App(help_flags=(), version_flags=())

    @app.default
    def plan(
        *, recipe: str | None = None, method: str | None = None, model: str | None = None, dry_run: bool = False
    ) -> Recipe:
        recipe = _without_network(recipe, method, model) if dry_run else recipe
        return Recipe.from_table(plan_table(recipe, method, model), recipe or method or "recipe")

    with one_line_errors("isotune train"):
        _, chosen, *_ = app.parse_known_args(words)  # all other words are ignored
    return plan(**chosen.arguments)


def _without_network(recipe: str | None, method: str | None, model: str | None) -> str | None:
    """The recipe for a dry run, which does not ask the hub whether the model is a finished encoder."""
    return recipe if recipe or method else recipe_of_model(model, ask_hub=False)


def _training_flags(plan: Recipe) -> dict[str, inspect.Parameter]:
    names = () if any(stage.options.takes_steps for stage in plan.stages) else WITHOUT_STEPS
    return _flags(plan.stages[0].training, Group("Training", sort_key=4), names)


def _flags(options: BaseModel, panel: Group, names: Iterable[str] = ()) -> dict[str, inspect.Parameter]:
    """A keyword parameter for each of these fields, or for all; its help shows the value that the recipe has.

    The recipe checks the limits of a value, so only the type is passed on.
    """
    model = type(options)
    types = get_type_hints(model)
    flags = {}
    for name in names or model.model_fields:
        default = getattr(options, name)
        text = " ".join((model.model_fields[name].description or "").split())
        parameter = Parameter(
            help=text if default in (None, (), {}) else text.partition(" Unset:")[0],
            group=panel,
            metavar=METAVARS.get(name),
            consume_multiple=1,
            negative=None if types[name] is bool else (),
            show_default=_as_typed(name, default) or False,
        )
        annotation: Any = Annotated[types[name], parameter]
        if name == "columns":
            annotation, default = Annotated[tuple[str, ...], parameter, COLUMNS], ()
        flags[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    return flags


def _as_typed(name: str, value: object) -> str:
    """A default as a user would type it; empty if there is none."""
    match value:
        case bool():
            return f"--{'' if value else 'no-'}{name.replace('_', '-')}"
        case dict():
            return " ".join(f"{key}={column}" for key, column in value.items())
        case tuple():
            return " ".join(map(str, value))
    return "" if value is None else str(value)


def _refuse_options_of_other_methods(words: Sequence[str], parameters: Iterable[str], plan: Recipe) -> None:
    """Refuses an option that the recipe does not have, but other recipes have."""
    known, given = {*parameters, "help", "version"}, given_options(words)
    for name, option in given.items():
        field = name.removeprefix("no_")
        if field not in known and (methods := [key for key in METHODS if field in METHODS[key].options.model_fields]):
            raise InputError(f"{option} is an option of another method: --method {' or '.join(methods)}")
        if field not in known and field in TrainingOptions.model_fields:
            raise InputError(
                f"{option} is an option of methods with steps, and {plan.stages[0].method} has none; choose another "
                "--recipe, or a --method such as simcse"
            )
