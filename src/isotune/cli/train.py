"""`isotune train`: one flag for every option of the recipe that is asked for."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import BaseModel

from isotune.encoder.options import EncoderOptions
from isotune.methods import METHODS
from isotune.recipes import Recipe, TrainingOptions, plan_table

RUN_FLAGS = ("model", "dev", "tasks", "columns", "seed")


def train_command(arguments: Sequence[str]) -> Callable[..., int]:
    """The command's function, with the flags of the method or recipe that the arguments name."""
    asked = [_value(arguments, flag) for flag in ("--recipe", "--method", "--model")]
    table = plan_table(*asked) if arguments[:1] == ["train"] else plan_table(None, None, None)
    models: list[tuple[type[BaseModel], dict[str, Any]]] = [
        (Recipe, table),
        (EncoderOptions, table.get("encoder", {})),
        (TrainingOptions, table["stages"][0]),
        *((METHODS[stage["method"]].options, stage) for stage in table["stages"]),
    ]
    parameters = {
        name: _flag(name, model, values)
        for model, values in models
        for name in (RUN_FLAGS if model is Recipe else model.model_fields)
    }

    def train(
        *sources: str,
        out: Path | None = None,
        recipe: str | None = None,
        method: str | None = None,
        resume: bool = False,
        **options: Any,
    ) -> int:
        """Tune a sentence encoder on plain text, and show what it gained.

        Parameters
        ----------
        sources
            Text: files (.txt, .csv, .tsv, .jsonl, .parquet, also .gz), patterns, named datasets such as stsb-open,
            hub:owner/name, or - for standard input.
        out
            The run folder to make: metrics, checkpoints, encoder, report.
        recipe
            A recipe's name (see `isotune recipes`) or TOML file.
        method
            A method's name, for its defaults in place of a recipe.
        resume
            Go on with the run in --out, as it was started.
        """
        from isotune.errors import InputError
        from isotune.training import train as run

        if out is None:
            raise InputError("no --out: name the folder for the run")
        given = {key: value for key, value in options.items() if value is not None}
        result = run(sources, out=out, recipe=recipe, method=method, resume=resume, **given)
        print(result.report)
        return 128 + signal.Signals[result.stopped] if result.stopped else 0

    own = inspect.signature(train, eval_str=True)
    fixed = [parameter for parameter in own.parameters.values() if parameter.name != "options"]
    train.__signature__ = own.replace(parameters=[*fixed, *parameters.values()])  # type: ignore[attr-defined]
    return train


def _flag(name: str, model: type[BaseModel], values: dict[str, Any]) -> inspect.Parameter:
    """A keyword that is None unless given, and whose help tells what the recipe has."""
    field = model.model_fields[name]
    default = values.get(name, field.get_default())
    text = f"{field.description} [default: {default}]" if default not in (None, (), {}) else field.description
    negative = None if field.annotation is bool else ()
    annotation: Any = Annotated[
        field.rebuild_annotation() | None, Parameter(help=text, consume_multiple=True, negative=negative)
    ]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _value(arguments: Sequence[str], flag: str) -> str | None:
    """What follows a flag, as "--flag value" or "--flag=value"."""
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None
