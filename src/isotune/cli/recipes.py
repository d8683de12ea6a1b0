"""`isotune recipes`: the list of recipes, or one recipe with the source of each value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from isotune.cli.parameters import LIST_JSON, for_the_list
from isotune.errors import InputError

if TYPE_CHECKING:
    from rich.table import Column

    from isotune.recipes import Recipe

NAME = "The recipe to print. Without a name, all are listed."
METHODS = "List the methods in place of the recipes."
PAPERS = "the settings of papers (isotune reproduce makes their tables):"


def recipes(
    name: Annotated[str | None, Parameter(help=NAME)] = None,
    /,
    *,
    methods: Annotated[bool, Parameter(help=METHODS, negative="")] = False,
    as_json: Annotated[bool, LIST_JSON] = False,
) -> None:
    """The list begins with the recipes for texts of your own; those of papers stand below. A recipe
    is printed as its file has it, with the paper, the published score, the cost, and the source of
    each value. A changed copy, mine.toml, is a recipe of your own.
    """
    from isotune.recipes import RECIPES

    if methods:
        _list_methods(name, as_json)
    elif name:
        for_the_list(as_json)
        print(RECIPES[name].read_text("utf-8"), end="")
    else:
        _list(as_json)


def _list(as_json: bool) -> None:
    from isotune.cli.tables import print_json, print_table
    from isotune.recipes import RECIPES, Recipe, is_published_setting, read_recipe

    entries = []
    own = []
    published = []
    for name in RECIPES:
        recipe = Recipe.from_table(read_recipe(name), name)
        entries.append(_entry(name, recipe))
        row = (name, recipe.paper, recipe.title)
        if is_published_setting(name):
            published.append(row)
        else:
            own.append(row)
    if as_json:
        print_json(entries)
        return
    print("for texts of your own:")
    print_table(_columns(), own)
    print(f"\n{PAPERS}")
    print_table(_columns(), published)


def _columns() -> list[Column]:
    """The columns of a table of recipes; a column belongs to one table."""
    from rich.table import Column

    return [
        Column("Recipe", no_wrap=True),
        Column("Paper", no_wrap=True),
        Column("What it is", overflow="fold"),
    ]


def _entry(name: str, recipe: Recipe) -> dict[str, object]:
    """What JSON has of a recipe."""
    sources: dict[str, None] = {}
    for stage in recipe.stages:
        sources |= dict.fromkeys(recipe.inputs(stage).data)
    included = {"title", "paper", "source", "published", "cost", "gained"}
    facts = recipe.model_dump(include=included)
    return {"name": name, "data": list(sources), **facts}


def _list_methods(name: str | None, as_json: bool) -> None:
    """Lists the methods, each with the first line of what its options say."""
    from rich.table import Column

    from isotune.cli.tables import print_list
    from isotune.methods import METHODS as ALL
    from isotune.methods import OPTIONS

    if name:
        raise InputError(f"--methods lists all methods; leave {name} out")
    abouts = []
    for method in ALL:
        about, *_ = (OPTIONS[method].__doc__ or "").split("\n")
        abouts.append((method, about))
    entries = [{"name": method, "title": about} for method, about in abouts]
    columns = [Column("Method", no_wrap=True), Column("What it is", overflow="fold")]
    print_list(as_json, entries, columns, abouts)
