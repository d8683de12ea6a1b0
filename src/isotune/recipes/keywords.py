"""The options of `isotune.train`: what `help` shows, and what a notebook completes.

They are gathered from their models. Type checkers read `training/options.pyi`, which
`python -m tests.training.test_options` writes from the same models.
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
    recipe_types = get_type_hints(Recipe)
    types: dict[str, Any] = {name: recipe_types[name] for name in RUN_OPTIONS[2:]}
    models: list[type[BaseModel]] = [EncoderOptions, TrainingOptions]
    for method in sorted(OPTIONS):
        models.append(OPTIONS[method])
    for model in models:
        model_types = get_type_hints(model)
        for name in model.model_fields:
            types[name] = model_types[name] | types.get(name, model_types[name])
    return types


def with_keywords(signature: Signature) -> Signature:
    """The signature with all options in the place of `**options`.

    None stands for the recipe's value.
    """
    *parameters, _ = signature.parameters.values()
    for name, kind in keywords().items():
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    return signature.replace(parameters=parameters)
