"""`isotune recipes`: the table of recipes."""

from __future__ import annotations


def recipes() -> None:
    """List the recipes: what each one is, where its values are from, the published score, and the cost."""
    import rich
    from rich.table import Table

    from isotune.recipes import Recipe, read_recipe, recipe_names

    table = Table("Recipe", "What", "Data", "Values from", "Published", "Cost")
    for name in recipe_names():
        recipe = Recipe.from_table(read_recipe(name), name)
        data = ", ".join(recipe.data) or "yours"
        table.add_row(name, recipe.title, data, recipe.source, recipe.published, recipe.cost)
    rich.print(table)
