"""Recipes: the configuration of a run as data. One TOML file for each published setting. No torch here."""

from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import chain
from pathlib import Path
from typing import Any

from isotune.bundled import BUNDLED_MODEL
from isotune.encoder.finished import is_finished_encoder
from isotune.errors import InputError, nearest
from isotune.files import TOML, read_toml, toml_files
from isotune.methods import METHODS
from isotune.recipes.recipe import RUN_OPTIONS, Inputs, Recipe, Stage
from isotune.recipes.training import AsReleased, TrainingOptions
from isotune.registry import Registry

ENCODER_RECIPE = "adapt"  # for a finished encoder
DEFAULT_RECIPE = "default"  # for any other model
PAIRS_RECIPES = {
    DEFAULT_RECIPE: "pairs",
    ENCODER_RECIPE: "adapt-pairs",
}  # for two texts in the place of a sentence
MODEL_KINDS = {
    ENCODER_RECIPE: "a finished encoder: its folder has modules.json",
    DEFAULT_RECIPE: "a language model that is no sentence encoder yet: its folder has no modules.json",
}  # what the models of each of these recipes are, and of its recipe for pairs
MODEL_KINDS |= {PAIRS_RECIPES[name]: kind for name, kind in MODEL_KINDS.items()}


_FILES = toml_files(resources.files(__name__))
_FIRST = (
    *PAIRS_RECIPES,
    *PAIRS_RECIPES.values(),
    "crops",
    "consert-sif",
)  # for texts of the user's own
RECIPES: Registry[Traversable] = Registry(
    "recipe", {name: _FILES[name] for name in (*_FIRST, *_FILES)}
)
"""The TOML files of the recipes by name, in the order in which people need them."""


def add_recipe(path: str | Path) -> None:
    """Registers a recipe, a TOML file, under the name of the file without its ending.

    Raises:
        InputError: the file can't be read, or is not TOML; or the name is taken.
    """
    file = Path(path)
    read_toml("recipe", file, {})
    RECIPES.add(file.stem, file.resolve(), str(file.resolve()))


def read_recipe(name: str | Path) -> dict[str, Any]:
    """The table of a recipe, by its name or by its TOML file."""
    return read_toml("recipe", name, RECIPES)


def plan_table(
    recipe: str | Path | None, method: str | None, model: str | Path | None, pairs: object = None
) -> dict[str, Any]:
    """The table that a run starts from: the recipe, or the defaults of the method, or the recipe of the model.

    `pairs` are the columns of two texts, for which a model has another recipe than for sentences.
    """
    if recipe and method:
        raise InputError(
            f"recipe {recipe} and method {method} are both given; a recipe names its own method"
        )
    names: Mapping[str, Collection[str]] = {"recipe": RECIPES, "method": METHODS}
    kind, given, other = (
        ("method", method, "recipe") if method else ("recipe", str(recipe or ""), "method")
    )
    if given and given not in names[kind] and not given.endswith(TOML):
        meant, *_ = [*nearest(given, chain(*names.values())), given]
        if meant in names[other] and meant not in names[kind]:
            using = [
                each
                for each in RECIPES
                if meant in {stage["method"] for stage in read_recipe(each)["stages"]}
            ]
            its = f", or one of its recipes: {', '.join(using)}" if using else ""
            raise InputError(f"{given} is no {kind}: give {other} {meant}{its}")
    if method:
        return {
            "title": f"{method} with its defaults",
            "stages": [{"method": METHODS.check(method)}],
        }
    return read_recipe(recipe or recipe_of_model(model, pairs))


def recipe_of_model(model: object, pairs: object = None) -> str:
    """The recipe for a model, a name or an encoder, and for sentences or pairs; for runs without recipe and method."""
    finished = not isinstance(model, str | Path | None) or is_finished_encoder(
        model or BUNDLED_MODEL
    )
    name = ENCODER_RECIPE if finished else DEFAULT_RECIPE
    return PAIRS_RECIPES[name] if pairs else name


def resolve(
    sources: Sequence[str] | None,
    recipe: str | Path | None,
    method: str | None,
    options: Mapping[str, Any],
    *,
    pairs: Sequence[str] | None = None,
    with_stand_ins: bool = False,
) -> Recipe:
    """The recipe of a run: that of `plan_table`, with the sources and options set in it.

    `sources` replace the recipe's data, unless they are empty. None stands for rows from Python, which have no name.
    `pairs` names the columns of two texts that belong together.
    `with_stand_ins` takes what stands in for published data of which no file is on machines without a hub.
    """
    if pairs:
        if "columns" in options:
            raise InputError("pairs and columns both name columns; give one of them")
        options = {**options, "columns": dict(zip(("sentence1", "sentence2"), pairs, strict=True))}
    name = str(recipe or method or "options")
    plan = Recipe.from_table(plan_table(recipe, method, options.get("model"), pairs), name)
    if sources or sources is None:
        options = {**options, "data": sources or ()}
    if options:
        plan = plan.with_options(options, name)
    without_sources = [stage for stage in plan.stages if not stage.named_sources]
    if (sources or sources is None) and not without_sources:
        got = sources[0] if sources else "rows"
        raise InputError(
            f"{name}: every stage names the data it reads, so give no other sources (got {got})"
        )
    if without_sources and not plan.data and sources is not None:
        raise InputError(
            "no data: name at least one file or dataset to train on, such as stsb-open:train"
        )
    if with_stand_ins:
        from isotune.data.datasets import stand_ins  # here, because help needs no data

        plan = plan.with_sources(stand_ins)
    return plan
