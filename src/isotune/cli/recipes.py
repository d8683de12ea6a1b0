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
    """The list begins with the recipes for texts of your own. A recipe is printed as its file has it, with the paper,
    the published score, the cost, and the source of each value. A changed copy, mine.toml, is a recipe of your own.
    """
    from rich.table import Column

    from isotune.cli.tables import print_list
    from isotune.recipes import RECIPES, Recipe, read_recipe

    if name:
        for_the_list(as_json)
        print(RECIPES[name].read_text("utf-8"), end="")
        return
    entries, rows = [], []
    for each in RECIPES:
        recipe = Recipe.from_table(read_recipe(each), each)
        data = dict.fromkeys(
            source for stage in recipe.stages for source in recipe.inputs(stage).data
        )
        facts = recipe.model_dump(include={"title", "paper", "source", "published", "cost"})
        entries.append({"name": each, "data": list(data), **facts})
        rows.append((each, recipe.paper, recipe.title))
    columns = [
        *(Column(header, no_wrap=True) for header in ("Recipe", "Paper")),
        Column("What it is", overflow="fold"),
    ]
    print_list(as_json, entries, columns, rows)
