"""`isotune recipes`: the table of recipes."""

from __future__ import annotations

import re

BRACKETS = re.compile(r" \((?:[^()]|\([^()]*\))*\)")  # may hold one more pair of brackets


def recipes() -> None:
    """List the recipes: the training settings that come with isotune.

    The table shows the paper, the training data, the published score and the cost of a run. The score is shortened;
    the recipe's file has the whole text.
    """
    from rich.table import Column

    from isotune.cli.tables import print_table
    from isotune.recipes import RECIPES, Recipe, read_recipe

    rows = []
    for name in RECIPES:
        recipe = Recipe.from_table(read_recipe(name), name)
        sources = dict.fromkeys(source for stage in recipe.stages for source in recipe.inputs(stage).data)
        published = BRACKETS.sub("", recipe.published).partition(";")[0]
        rows.append((f"{name}\n  {recipe.paper}", "\n".join(sources) or "yours", published, recipe.cost))
    names = [Column(header, no_wrap=True) for header in ("Recipe", "Data")]
    print_table([*names, *(Column(header, ratio=1, overflow="fold") for header in ("Published", "Cost"))], rows)
