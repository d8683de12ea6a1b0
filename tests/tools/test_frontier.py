"""The points of docs/frontier.png are those of the tables of docs/log.md."""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
GROUPS = json.loads((DOCS / "frontier.json").read_text("utf-8"))
LOG = (DOCS / "log.md").read_text("utf-8")


def points(group: str) -> list[tuple[float, float]]:
    (found,) = [each["points"] for each in GROUPS if each["group"] == group]
    return [(point["mean"], point["worst"]) for point in found]


def test_the_points_of_temperatures_and_steps_are_those_of_their_table() -> None:
    rows = re.findall(r"^\| 0\.\d+, [^|]+ \| (.*) \| (.*) \| (.*) \|$", LOG, re.MULTILINE)
    for place, limit in enumerate(["limit 0.1", "limit 0", "no limit"]):
        cells = [row[place].split(", ") for row in rows]
        in_table = [(float(mean), float(worst)) for mean, _, worst in cells]
        assert points(f"temperature and steps, {limit}") == in_table


def test_the_points_of_soft_targets_and_adapt_are_those_of_their_table() -> None:
    table = LOG.partition("| | mean | median | worst domain |")[2].partition("\n\n")[0]
    rows = re.findall(r"\| ([-+]?[\d.]+) \| [-+]?[\d.]+ \| ([-+]?[\d.]+) \|", table)
    in_table = [(float(mean), float(worst)) for mean, worst in rows]
    adapt = points("adapt, three seeds")
    assert adapt + points("soft targets or boldness, limit 0") == in_table


def test_the_recipe_of_today_comes_first() -> None:
    """The tool names it beside the line."""
    assert [point["name"] for point in GROUPS[0]["points"]] == ["adapt"]
