"""Recipes: the configuration of a run as data, one TOML file for each published setting.

No torch here.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from isotune.bundled import BUNDLED_MODEL
from isotune.encoder.finished import is_finished_encoder
from isotune.errors import InputError, nearest
from isotune.files import TOML, read_toml, toml_files
from isotune.methods import METHODS, OPTIONS
from isotune.methods.options import LabelOptions
from isotune.recipes.recipe import RUN_OPTIONS, Inputs, Recipe, Stage
from isotune.recipes.training import AsReleased, TrainingOptions
from isotune.registry import Registry

ENCODER_RECIPE = "adapt"
"""The recipe for a finished encoder."""

DEFAULT_RECIPE = "default"
"""The recipe for any other model."""

PAIRS_RECIPES = {DEFAULT_RECIPE: "pairs", ENCODER_RECIPE: "adapt-pairs"}
"""The recipe in place of each of the two, for two texts in the place of a sentence."""

TEACHER_RECIPES = {DEFAULT_RECIPE: "distil", ENCODER_RECIPE: "adapt-distil"}
"""The recipe in place of each of the two, for a run with teachers."""

# No pattern of files ends like this, since a file that can be read has an ending.
_SHARE = re.compile(r"(?P<name>.+)\*(?P<share>\d+(\.\d+)?)")

_FINISHED = "a finished encoder: its folder has modules.json"
_LANGUAGE_MODEL = "a language model that is no sentence encoder yet: its folder has no modules.json"
MODEL_KINDS = {
    ENCODER_RECIPE: _FINISHED,
    DEFAULT_RECIPE: _LANGUAGE_MODEL,
    PAIRS_RECIPES[ENCODER_RECIPE]: _FINISHED,
    PAIRS_RECIPES[DEFAULT_RECIPE]: _LANGUAGE_MODEL,
    TEACHER_RECIPES[ENCODER_RECIPE]: _FINISHED,
    TEACHER_RECIPES[DEFAULT_RECIPE]: _LANGUAGE_MODEL,
}
"""What the models are that each of these recipes is for."""

_FILES = toml_files(resources.files(__name__))
# The recipes for texts of the user's own come first.
_FIRST = (
    *PAIRS_RECIPES,
    *PAIRS_RECIPES.values(),
    *TEACHER_RECIPES.values(),
    "classify",
    "crops",
    "cosent",
    "pca",
    "consert-sif",
)
RECIPES: Registry[Traversable] = Registry(
    "recipe", {name: _FILES[name] for name in (*_FIRST, *_FILES)}
)
"""The TOML files of the recipes by name, in the order in which people need them."""


def is_published_setting(name: str) -> bool:
    """Whether a recipe repeats a paper, and is not for texts of the user's own or of a plugin."""
    return name in _FILES and name not in _FIRST


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


def starting_table(
    recipe: str | Path | None,
    method: str | None,
    model: str | Path | None,
    pairs: object = None,
    teachers: object = None,
) -> dict[str, Any]:
    """The table that a run starts from.

    It is that of the recipe, or has the defaults of the method, or else is the table of the recipe
    that suits the model. For `pairs`, the columns of two texts, and for `teachers`, a model has
    another recipe than for sentences alone.
    """
    if recipe and method:
        raise InputError(
            f"recipe {recipe} and method {method} are both given; a recipe names its own method"
        )
    if method:
        _refuse_name_of("recipe", method, RECIPES, "method", METHODS)
        stage = {"method": METHODS.check(method)}
        table: dict[str, Any] = {"title": f"{method} with its defaults", "stages": [stage]}
        if issubclass(OPTIONS[method], LabelOptions):
            # General pairs don't say how well labels are predicted.
            table["dev"] = "none"
        return table
    if recipe:
        _refuse_name_of("method", str(recipe), METHODS, "recipe", RECIPES)
        return read_recipe(recipe)
    return read_recipe(recipe_of_model(model, pairs, teachers))


def _refuse_name_of(
    other: str, given: str, other_names: Collection[str], kind: str, names: Collection[str]
) -> None:
    """Refuses a name that is given as a `kind`, if it is, or is like, a name of the other kind."""
    if given in names or given.endswith(TOML):
        return
    meant = next(iter(nearest(given, [*RECIPES, *METHODS])), given)
    if meant not in set(other_names) - set(names):
        return
    advice = f"give {other} {meant}"
    users = [name for name in RECIPES if meant in _methods_of(name)]
    if users:
        advice += f", or one of its recipes: {', '.join(users)}"
    raise InputError(f"{given} is no {kind}: {advice}")


def _methods_of(recipe: str) -> set[str]:
    return {stage["method"] for stage in read_recipe(recipe)["stages"]}


def recipe_of_model(model: object, pairs: object = None, teachers: object = None) -> str:
    """The recipe for runs without recipe and method: for a model, and for sentences or pairs.

    The model is a name, or an encoder. None stands for the bundled model.

    Raises:
        InputError: there are pairs and teachers, and no recipe is for both.
    """
    if pairs and teachers:
        raise InputError(
            "pairs and teachers are both given, and no recipe is for both; give one of them, or a "
            "recipe with a stage for each"
        )
    recipe = ENCODER_RECIPE
    if isinstance(model, str | Path | None) and not is_finished_encoder(model or BUNDLED_MODEL):
        recipe = DEFAULT_RECIPE
    if pairs:
        return PAIRS_RECIPES[recipe]
    if teachers:
        return TEACHER_RECIPES[recipe]
    return recipe


def resolve(
    sources: Sequence[str] | None,
    recipe: str | Path | None,
    method: str | None,
    options: Mapping[str, Any],
    *,
    pairs: Sequence[str] | None = None,
    with_stand_ins: bool = False,
) -> Recipe:
    """The recipe of a run: that of `starting_table`, with the sources and options set in it.

    `sources` replace the recipe's data, unless they are empty. A share may stand behind each, as in
    wiki.txt*2. None stands for rows from Python, which have no name. `pairs` names the columns of
    two texts that belong together.
    `with_stand_ins` takes what stands in for published data of which no file is on machines without
    a hub.
    """
    changes = dict(options)
    if pairs:
        if "columns" in options:
            raise InputError("pairs and columns both name columns; give one of them")
        changes["columns"] = _columns_of(pairs)
    name = str(recipe or method or "options")
    table = starting_table(recipe, method, options.get("model"), pairs, options.get("teachers"))
    resolved = Recipe.from_table(table, name)
    if sources is None:
        changes["data"] = ()
        changes["shares"] = ()
    elif sources:
        changes["data"], changes["shares"] = _split_shares(sources)
    resolved = resolved.with_options(changes, name)
    _check_data(resolved, sources, name)
    if with_stand_ins:
        # Imported here, because help needs no data.
        from isotune.data.datasets import stand_ins

        resolved = resolved.with_sources(stand_ins)
    return resolved


def _columns_of(pairs: Sequence[str]) -> dict[str, str]:
    """The columns of two texts that belong together, by their fields; refuses other names."""
    if isinstance(pairs, str) or len(pairs) != 2:
        raise InputError(f"pairs: the names of two columns are needed, not {pairs!r:.80}")
    first, second = pairs
    return {"sentence1": first, "sentence2": second}


def _split_shares(sources: Sequence[str]) -> tuple[list[str], list[float]]:
    """The sources without the shares behind them, as in wiki.txt*2, and the shares.

    A source without a share has the share 1. There are no shares if no source has one.

    Raises:
        InputError: a share is 0.
    """
    names = []
    shares = []
    has_shares = False
    for source in sources:
        name = source
        share = 1.0
        match = _SHARE.fullmatch(source)
        # A file whose name ends like this is that file.
        if match and not os.path.exists(source):
            name = match["name"]
            share = float(match["share"])
            if share == 0:
                raise InputError(
                    f"{source}: a share is a number above 0, as in {name}*2; to take no row of a "
                    "file, leave the file out"
                )
            has_shares = True
        names.append(name)
        shares.append(share)
    if not has_shares:
        return names, []
    return names, shares


def _check_data(recipe: Recipe, sources: Sequence[str] | None, name: str) -> None:
    """Refuses sources or rows that no stage would read, and stages without any data."""
    if all(stage.named_sources for stage in recipe.stages):
        given = ["rows"] if sources is None else sources
        if given:
            raise InputError(
                f"{name}: every stage names the data it reads, so give no other sources (got "
                f"{given[0]})"
            )
    elif sources is not None and not recipe.data:
        raise InputError(
            "no data: name at least one file or dataset to train on, such as stsb-open:train"
        )
