"""Every value of every recipe says where it is from."""

from __future__ import annotations

from importlib import resources

import pytest

from isotune.recipes import RECIPES

ABOUT = {"title", "paper", "source", "published", "cost"}  # of the recipe itself
NAMES = {"model", "method"}  # what the title is about


def values(name: str) -> list[str]:
    """The lines of a recipe's file that give a value."""
    text = resources.files("isotune.recipes").joinpath(f"{name}.toml").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "["))]
    return [line for line in lines if line.partition(" = ")[0] not in ABOUT | NAMES]


@pytest.mark.parametrize("name", RECIPES)
def test_every_value_has_its_source(name: str) -> None:
    assert [line for line in values(name) if not line.partition("  # ")[2].strip()] == []
