"""`isotune train`: one flag for every option of the recipe that is asked for."""

from __future__ import annotations

import inspect
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cyclopts import Group, Parameter
from pydantic import BaseModel

from isotune.cli.parameters import COLUMNS, columns_table
from isotune.methods import METHODS
from isotune.recipes import BUNDLED_RECIPE, DEFAULT_RECIPE, Recipe, plan_table

RUN = Group("Run", sort_key=1)
ENCODER = Group("Encoder", sort_key=2)
TRAINING = Group("Training", sort_key=4)

TEXT = (
    "What to train on: files (.txt, .csv, .tsv, .jsonl, .parquet, also .gz), patterns, named datasets such as "
    "stsb-open:train, hub:owner/name, or - for standard input."
)
OUT = "The run folder to make: metrics, checkpoints, encoder, report. Unset: runs/METHOD-DATE-TIME."
RECIPE = (
    f"A recipe's name (isotune recipes lists them) or TOML file. Unset: {BUNDLED_RECIPE} for the bundled model, "
    f"{DEFAULT_RECIPE} for any other."
)
METHOD = "A method with its own defaults, in place of a recipe."
RESUME = "Go on with the run in --out, as it was started: nothing else is given."

RUN_FLAGS = ("model", "dev", "tasks", "columns", "seed")
METAVARS = {"model": "NAME", "dev": "NAME", "tasks": "NAME...", "prompt": "TEXT"}


def train_command(arguments: Sequence[str]) -> Callable[..., int]:
    """The command's function, with the flags of the method or recipe that the arguments name."""
    recipe, method, model = (_value(arguments, flag) for flag in ("--recipe", "--method", "--model"))
    plan = Recipe.from_table(plan_table(recipe, method, model), recipe or method or "recipe")
    panels: list[tuple[Group, BaseModel, Sequence[str]]] = [
        (RUN, plan, RUN_FLAGS),
        (ENCODER, plan.encoder, list(type(plan.encoder).model_fields)),
        *(
            (_method_panel(stage.method), stage.options, list(type(stage.options).model_fields))
            for stage in plan.stages
        ),
        (TRAINING, plan.stages[0].training, list(type(plan.stages[0].training).model_fields)),
    ]
    parameters = {name: _flag(name, options, panel) for panel, options, names in panels for name in names}

    def train(
        *text: Annotated[str, Parameter(help=TEXT)],
        out: Annotated[Path | None, Parameter(help=OUT, group=RUN, metavar="DIR")] = None,
        recipe: Annotated[str | None, Parameter(help=RECIPE, group=RUN, metavar="NAME")] = None,
        method: Annotated[str | None, Parameter(help=METHOD, group=RUN, choices=tuple(METHODS))] = None,
        resume: Annotated[bool, Parameter(help=RESUME, group=RUN)] = False,
        **options: Any,
    ) -> int:
        """Tune a sentence encoder on plain text, and show what it gained."""
        from isotune.errors import InputError
        from isotune.training import train as run

        if resume and out is None:
            raise InputError("--resume needs --out: the folder of the run to go on with")
        out = out or Path("runs", f"{plan.stages[0].method}-{time.strftime('%Y%m%d-%H%M%S')}")
        if "columns" in options:
            options["columns"] = columns_table(options["columns"])
        result = run(text, out=out, recipe=recipe, method=method, resume=resume, **options)
        print(result.report)
        return 128 + signal.Signals[result.stopped] if result.stopped else 0

    own = inspect.signature(train, eval_str=True)
    fixed = [parameter for parameter in own.parameters.values() if parameter.name != "options"]
    train.__signature__ = own.replace(parameters=[*fixed, *parameters.values()])  # type: ignore[attr-defined]
    return train


def _method_panel(method: str) -> Group:
    return Group(f"Method {method}", help="For those of another method: isotune train --method NAME --help", sort_key=3)


def _flag(name: str, options: BaseModel, panel: Group) -> inspect.Parameter:
    """A keyword whose help tells what the recipe has; its limits are the recipe's to check."""
    kind, default = get_type_hints(type(options))[name], getattr(options, name)
    text = " ".join((type(options).model_fields[name].description or "").split())
    parameter = Parameter(
        help=text if default in (None, (), {}) else text.partition(" Unset:")[0],
        group=panel,
        metavar=METAVARS.get(name),
        consume_multiple=1,
        negative=None if kind is bool else (),
        show_default=_as_typed(name, default) or False,
    )
    annotation: Any = Annotated[kind, parameter]
    if name == "columns":
        annotation, default = Annotated[tuple[str, ...], parameter, COLUMNS], ()
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _as_typed(name: str, value: object) -> str:
    """A default as it is written on the command line; empty where there is none."""
    match value:
        case None:
            return ""
        case bool():
            return f"--{'' if value else 'no-'}{name.replace('_', '-')}"
        case dict():
            return " ".join(f"{key}={column}" for key, column in value.items())
        case tuple():
            return " ".join(map(str, value))
    return str(value)


def _value(arguments: Sequence[str], flag: str) -> str | None:
    """What follows a flag, as "--flag value" or "--flag=value"."""
    for word, following in zip(arguments, [*arguments[1:], None], strict=False):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None
