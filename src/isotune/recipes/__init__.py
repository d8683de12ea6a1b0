"""Recipes: a run as data. One TOML file a published setting, each value with its source. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from isotune.bundled import BUNDLED_MODEL
from isotune.errors import InputError, unknown
from isotune.files import read_toml, toml_files
from isotune.methods import METHODS
from isotune.recipes.recipe import Inputs, Recipe, Stage, override
from isotune.recipes.training import TrainingOptions

__all__ = [
    "Inputs",
    "Recipe",
    "Stage",
    "TrainingOptions",
    "override",
    "plan_table",
    "read_recipe",
    "recipe_names",
    "resolve",
]

BUNDLED_RECIPE = "mini"  # for the bundled model
DEFAULT_RECIPE = "default"  # for any other


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return list(toml_files(resources.files(__name__)))


def read_recipe(name: str | Path) -> dict[str, Any]:
    """The table of a recipe of the package, or of a TOML file.

    Raises:
        InputError: there is neither, or the file isn't TOML.
    """
    return read_toml("recipe", name, toml_files(resources.files(__name__)))


def plan_table(recipe: str | Path | None, method: str | None, model: str | None) -> dict[str, Any]:
    """The table that a run starts from: the recipe named, a method's defaults, or the default recipe for the model.

    Raises:
        InputError: both a recipe and a method are given, or there is none of that name.
    """
    if recipe and method:
        raise InputError(f"recipe {recipe} and method {method} are both given; a recipe names its own method")
    if method:
        if method not in METHODS:
            raise unknown("method", method, METHODS)
        return {"title": f"{method} with its defaults", "stages": [{"method": method}]}
    return read_recipe(recipe or (BUNDLED_RECIPE if model in (None, BUNDLED_MODEL) else DEFAULT_RECIPE))


def resolve(
    sources: Sequence[str], recipe: str | Path | None, method: str | None, options: Mapping[str, Any]
) -> Recipe:
    """The recipe of a run: the one named, or the method's defaults, or the default recipe, with the options over it.

    Raises:
        InputError: recipe and method are both given, an option is unknown or not allowed, or there is no data.
    """
    name = str(recipe or method or "options")
    table = Recipe.from_table(plan_table(recipe, method, options.get("model")), name).table()
    plan = Recipe.from_table(override(table, {**options, "data": sources} if sources else options), name)
    reading = [stage for stage in plan.stages if not stage.named_sources]
    if sources and not reading:
        raise InputError(f"{name}: it names itself what it reads, so give no other sources (got {sources[0]})")
    if reading and not plan.data:
        raise InputError("no data: name at least one file or dataset to train on, such as stsb-open:train")
    return plan
