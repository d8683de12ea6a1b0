"""The points of docs/smaller.png are the means of the tables of docs/results.md."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ENCODERS = json.loads((DOCS / "smaller.json").read_text("utf-8"))
SECTION = (DOCS / "results.md").read_text("utf-8").partition("### Smaller vectors in search")[2]
TEXTS = 4


def scores(table: str, encoder: str) -> list[list[list[float]]]:
    """For each column of a table, the numbers in the cells of an encoder's texts."""
    rows = table.partition(f"| {encoder} ")[2].splitlines()[:TEXTS]
    cells = [re.findall(r"(?<=\| )\d[^|]*", row) for row in rows]
    numbers = [[[float(n) for n in cell.split(" / ")] for cell in row] for row in cells]
    return [list(column) for column in zip(*numbers, strict=True)]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda each: each["encoder"])
def test_the_points_are_the_means_of_the_texts(encoder: dict) -> None:
    _, widths, kinds = SECTION.split("| encoder |")[:3]
    whole, *parts = scores(widths, encoder["encoder"])
    full = fmean(cell[0] for cell in whole)
    expected = [
        [full] + [fmean(cell[way] for cell in column) for column in parts] for way in (0, 1)
    ]
    _, *small = scores(kinds, encoder["encoder"])
    expected += [[fmean(cell[0] for cell in column)] for column in small]
    points = [[score for _, score in way["points"]] for way in encoder["ways"]]
    for drawn, means in zip(points, expected, strict=True):
        assert drawn == pytest.approx(means, abs=0.011)
