"""`isotune recipes`: the table of recipes."""

from __future__ import annotations


def recipes() -> None:
    """List the recipes: what each one is, where its values are from, the published score, and the cost."""
    import rich
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from isotune.recipes import Recipe, read_recipe, recipe_names

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("Recipe", no_wrap=True)
    table.add_column("What it is")
    for name in recipe_names():
        recipe = Recipe.from_table(read_recipe(name), name)
        facts = {
            "values": recipe.source,
            "model": recipe.model or "yours",
            "data": ", ".join(recipe.data) or "yours",
            "published": recipe.published,
            "cost": recipe.cost,
        }
        lines = [recipe.title, *(f"{fact}: {value}" for fact, value in facts.items() if value)]
        table.add_row(name, Text("\n".join(lines)))
    rich.print(table)
