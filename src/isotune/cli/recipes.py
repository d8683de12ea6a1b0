"""`isotune recipes`: the list of recipes, or one recipe with the source of each value."""

from typing import Annotated

from cyclopts import Parameter

from isotune.cli.parameters import LIST_JSON, for_the_list

NAME = "The recipe to print. Without a name, all are listed."


def recipes(
    name: Annotated[str | None, Parameter(help=NAME)] = None,
    /,
    *,
    as_json: Annotated[bool, LIST_JSON] = False,
) -> None:
    """The list begins with the recipes for texts of your own. A recipe is printed as its file has
    it, with the paper, the published score, the cost, and the source of each value. A changed copy,
    mine.toml, is a recipe of your own.
    """
    from isotune.recipes import RECIPES

    if name:
        for_the_list(as_json)
        print(RECIPES[name].read_text("utf-8"), end="")
    else:
        _list(as_json)


def _list(as_json: bool) -> None:
    from rich.table import Column

    from isotune.cli.tables import print_list
    from isotune.recipes import RECIPES, Recipe, read_recipe

    entries = []
    rows = []
    for name in RECIPES:
        recipe = Recipe.from_table(read_recipe(name), name)
        sources: dict[str, None] = {}
        for stage in recipe.stages:
            sources |= dict.fromkeys(recipe.inputs(stage).data)
        included = {"title", "paper", "source", "published", "cost", "gained"}
        facts = recipe.model_dump(include=included)
        entries.append({"name": name, "data": list(sources), **facts})
        rows.append((name, recipe.paper, recipe.title))
    columns = [
        Column("Recipe", no_wrap=True),
        Column("Paper", no_wrap=True),
        Column("What it is", overflow="fold"),
    ]
    print_list(as_json, entries, columns, rows)
