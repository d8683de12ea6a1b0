"""What the papers state of their runs (stated.toml), against their recipes and studies."""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from isotune.lab.studies import paper_names, read_study
from isotune.lab.studies.plan import plan_runs
from isotune.recipes import RECIPES, Recipe, read_recipe

STATED: dict[str, dict[str, list[dict[str, Any]]]] = tomllib.loads(
    Path(__file__).with_name("stated.toml").read_text("utf-8")
)
PARTS = ("data", "dev", "test")
OWN = {"adapt", "consert-sif", "default"}  # recipes of a paper's method, with settings of isotune
UNSET = "unset"
# What is read, and the published score, which other tests check.
DATA = {
    "published",
    "data",
    "dev_data",
    *(f"{task}_{part}" for task in ("sentiment", "paraphrase", "similarity") for part in PARTS),
}


class Made(NamedTuple):
    """A stage of a recipe, or of a study's run."""

    names: frozenset[str]  # what `where` of the table may name
    method: str
    values: dict[str, Any]  # its options, those of the encoder, the dev pairs and the seed
    varied: frozenset[str]  # the options of the study's grid


def stages(paper: str) -> Iterator[Made]:
    """The stages of a paper's recipes and of the runs of its studies."""
    for name in RECIPES:
        recipe = Recipe.from_table(read_recipe(name))
        if recipe.paper.lower() == paper and name not in OWN:
            yield from _stages(recipe, {name})
    for name in (name for name in paper_names() if name.startswith(f"{paper}/")):
        study = read_study(name)
        arms = {arm.name: arm for arm in study.arms}
        for run in plan_runs(study):
            if run.recipe:
                names = {name, f"{name}: {run.arm}", arms[run.arm].recipe}
                yield from _stages(run.recipe, names, set(run.cell))


def _stages(recipe: Recipe, names: Iterable[str], varied: Iterable[str] = ()) -> Iterator[Made]:
    shared = {**recipe.encoder.model_dump(), "dev": recipe.dev, "seed": recipe.seed}
    for stage in recipe.stages:
        values = {**shared, **stage.options.model_dump(), **stage.training.model_dump()}
        values |= values.pop("as_released")
        yield Made(frozenset(names), stage.method, values, frozenset(varied))


def differences(paper: str, table: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Where a run has another value than the table; and lines of the table that no run needs."""
    found, needed = set(), set()
    for made in stages(paper):
        for number, line in enumerate(table["stated"]):
            option = line["option"]
            if (
                made.method not in line["of"]
                or option in made.varied
                or not made.names & set(line.get("only", made.names))
            ):
                continue
            needed.add(("stated", number))
            value, expected = made.values[option], line["value"]
            for place, other in enumerate(table["deviates"]):
                here = made.names & set(other["where"]) and made.method == other.get(
                    "of", made.method
                )
                if here and other["option"] == option:
                    expected = other["value"]
                    needed.add(("deviates", place))
            value = UNSET if value is None else list(value) if isinstance(value, tuple) else value
            if value != expected:
                found.add(
                    f"{sorted(made.names)}, {made.method}: {option} is {value}, not {expected} "
                    f"({line['place']})"
                )
    lines = {
        (kind, number) for kind in ("stated", "deviates") for number in range(len(table[kind]))
    }
    return sorted(found) + [
        f"no run needs {table[kind][number]}" for kind, number in sorted(lines - needed)
    ]


@pytest.mark.parametrize("paper", STATED)
def test_every_run_has_the_stated_values(paper: str) -> None:
    assert differences(paper, STATED[paper]) == []


@pytest.mark.parametrize("paper", STATED)
def test_every_value_that_a_recipe_has_from_its_paper_is_in_the_table(paper: str) -> None:
    """By the comment of the value, which begins with a section or table."""
    known = {line["option"] for line in STATED[paper]["stated"]} | DATA
    for name in RECIPES:
        text = resources.files("isotune.recipes").joinpath(f"{name}.toml").read_text("utf-8")
        if Recipe.from_table(tomllib.loads(text)).paper.lower() == paper and name not in OWN:
            cited = re.findall(r"^(\w+) = .*  # (?:section|Table) \d", text, re.MULTILINE)
            assert [option for option in cited if option not in known] == [], name


def test_the_grids() -> None:
    for line in STATED["small-bert"]["grids"]:
        for name in line["studies"]:
            study = read_study(name)
            grids = [study.grid, *(arm.grid or {} for arm in study.arms)]
            found = [set(grid[line["option"]]) for grid in grids if line["option"] in grid]
            assert found
            assert all(values == set(line["values"]) for values in found)


@pytest.mark.parametrize("paper", STATED)
def test_the_paper_says_so(paper: str) -> None:
    if "ISOTUNE_PAPERS" not in os.environ:
        pytest.skip("$ISOTUNE_PAPERS is not set")
    text = _plain(Path(os.environ["ISOTUNE_PAPERS"], f"{paper}.txt").read_text("utf-8"))
    lines = [*STATED[paper]["stated"], *STATED[paper].get("grids", [])]
    assert [line["says"] for line in lines if _plain(line.get("says", "")) not in text] == []


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)
