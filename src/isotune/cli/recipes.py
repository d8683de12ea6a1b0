"""`isotune recipes`: the table of recipes."""

import re
from typing import Annotated

from isotune.cli.parameters import JSON

BRACKETS = re.compile(r" \((?:[^()]|\([^()]*\))*\)")  # may hold one more pair of brackets


def recipes(*, as_json: Annotated[bool, JSON] = False) -> None:
    """The table shows the paper, the training data, the published score and the cost of a run. The score is shortened;
    the recipe's file has the whole text.
    """
    from rich.table import Column

    from isotune.cli.tables import print_list
    from isotune.recipes import RECIPES, Recipe, read_recipe

    every = {name: Recipe.from_table(read_recipe(name), name) for name in RECIPES}
    data = {
        name: list(dict.fromkeys(source for stage in recipe.stages for source in recipe.inputs(stage).data))
        for name, recipe in every.items()
    }
    facts = {"title", "paper", "source", "published", "cost"}
    entries = [{"name": name, "data": data[name], **every[name].model_dump(include=facts)} for name in every]
    rows = []
    for name, recipe in every.items():
        published = BRACKETS.sub("", recipe.published).partition(";")[0]
        rows.append((f"{name}\n  {recipe.paper}", "\n".join(data[name]) or "yours", published, recipe.cost))
    columns = [Column(header, no_wrap=True) for header in ("Recipe", "Data")]
    columns += [Column(header, ratio=1, overflow="fold") for header in ("Published", "Cost")]
    print_list(as_json, entries, columns, rows)
