"""`isotune recipes`: the table of recipes."""

from __future__ import annotations

import re

BRACKETS = re.compile(r" \((?:[^()]|\([^()]*\))*\)")  # with one more pair inside
WIDE = 100  # columns; in fewer, the paper stands below the name


def recipes() -> None:
    """List the recipes: the paper, what is read, the score to expect, and what it costs.

    The score is the source's, in short; the recipe's file has all of it.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from isotune.recipes import Recipe, read_recipe, recipe_names

    console = Console(highlight=False, markup=False, emoji=False)  # nli:train: is a tram otherwise
    wide = console.width >= WIDE
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("Recipe", *(("Paper",) if wide else ()), "Data"):
        table.add_column(column, no_wrap=True)
    for column in ("Published", "Cost"):
        table.add_column(column, ratio=1, overflow="fold")
    for name in recipe_names():
        recipe = Recipe.from_table(read_recipe(name), name)
        who = (name, recipe.paper) if wide else (f"{name}\n  {recipe.paper}",)
        sources = dict.fromkeys(source for stage in recipe.stages for source in recipe.inputs(stage).data)
        published = BRACKETS.sub("", recipe.published).partition(";")[0]
        table.add_row(*who, "\n".join(sources) or "yours", published, recipe.cost)
    console.print(table)
