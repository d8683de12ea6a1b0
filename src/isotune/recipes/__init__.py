"""Recipes: a run as data. One TOML file a published setting, each value with its source. No torch here."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from isotune.bundled import BUNDLED_MODEL
from isotune.errors import InputError, unknown
from isotune.files import read_toml, toml_files
from isotune.methods import METHODS
from isotune.recipes.recipe import Recipe, Stage, override
from isotune.recipes.training import TrainingOptions

__all__ = ["Recipe", "Stage", "TrainingOptions", "override", "plan_table", "read_recipe", "recipe_names"]

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
