"""The points of docs/frontier.png are those of the tables of docs/log.md."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ENCODERS = json.loads((DOCS / "frontier.json").read_text("utf-8"))
LOG = (DOCS / "log.md").read_text("utf-8")


def points(encoder: str, group: str) -> list[tuple[float, float]]:
    (found,) = [each["points"] for each in ENCODERS[encoder] if each["group"] == group]
    return [(point["mean"], point["worst"]) for point in found]


def test_the_points_of_temperatures_and_steps_are_those_of_their_table() -> None:
    rows = re.findall(r"^\| 0\.\d+, [^|]+ \| (.*) \| (.*) \| (.*) \|$", LOG, re.MULTILINE)
    for place, limit in enumerate(["limit 0.1", "limit 0", "no limit"]):
        cells = [row[place].split(", ") for row in rows]
        in_table = [(float(mean), float(worst)) for mean, _, worst in cells]
        assert points("all-MiniLM", f"temperature and steps, {limit}") == in_table


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_points_of_soft_targets_and_adapt_are_those_of_their_table(encoder: str) -> None:
    tables = LOG.split("| | mean | median | worst domain |")[1:]
    table = tables[list(ENCODERS).index(encoder)].partition("\n\n")[0]
    rows = re.findall(r"\| ([-+]?[\d.]+) \| [-+]?[\d.]+ \| ([-+]?[\d.]+) \|", table)
    in_table = [(float(mean), float(worst)) for mean, worst in rows]
    adapt = points(encoder, "adapt, three seeds")
    assert adapt + points(encoder, "soft targets or boldness, limit 0") == in_table


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_recipe_of_today_comes_first(encoder: str) -> None:
    """The tool names it beside the line."""
    assert [point["name"] for point in ENCODERS[encoder][0]["points"]] == ["adapt"]
