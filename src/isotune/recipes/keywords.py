"""The options of `isotune.train`, gathered from their models: what `help` shows, and what a notebook completes.

Type checkers read `training/options.pyi`, which `python -m tests.training.test_options` writes from the same models.
"""

from inspect import Parameter, Signature
from typing import Any, get_type_hints

from pydantic import BaseModel

from isotune.encoder.options import EncoderOptions
from isotune.methods import OPTIONS
from isotune.recipes.recipe import RUN_OPTIONS, Recipe
from isotune.recipes.training import TrainingOptions


def keywords() -> dict[str, Any]:
    """The type of each option by its name; several methods may have an option of one name."""
    types: dict[str, Any] = {name: get_type_hints(Recipe)[name] for name in RUN_OPTIONS[1:]}
    models: list[type[BaseModel]] = [
        EncoderOptions,
        TrainingOptions,
        *(OPTIONS[name] for name in sorted(OPTIONS)),
    ]
    for model in models:
        hints = get_type_hints(model)
        types |= {name: hints[name] | types.get(name, hints[name]) for name in model.model_fields}
    return types


def with_keywords(signature: Signature) -> Signature:
    """The signature with all options in the place of `**options`; None stands for the recipe's value."""
    *fixed, _ = signature.parameters.values()
    more = (
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in keywords().items()
    )
    return signature.replace(parameters=[*fixed, *more])
