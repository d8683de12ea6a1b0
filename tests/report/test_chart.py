"""Charts, as they are drawn for paper and for a page."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex

from isotune.report.chart import Bars, Chart, Panel, Series
from isotune.report.drawing import draw, svg
from isotune.report.style import look

SVG = "{http://www.w3.org/2000/svg}"
TITLE = f"{SVG}title"
LINE = Series([0, 1, 2], [1.0, nan, 3.0], "line", "#D55E00", "--", "s", hover=["a<b", "", "c"])
RINGS = Series([1], [2.0], marker="o", hollow=True, labels=["x"])
BARS = Bars([0.0, 1.0], [0.0, 2.0], [1.0, 0.5], [3.0, 4.0], "bars", "#0072B2", ["first", "second"])
PANEL = Panel([BARS, LINE, RINGS], "Title <1>", "across", "up", whole_x=True)
THREE = Chart([PANEL, Panel([LINE], "Second", "across", "up"), Panel([LINE], "Third", "across", "up")])


def test_marks_on_paper() -> None:
    (ax, *_) = draw(THREE).axes
    line, rings = ax.lines
    assert line.get_label() == "line"
    assert (line.get_linestyle(), line.get_marker(), line.get_color()) == ("--", "s", "#D55E00")
    assert list(line.get_xdata()) == [0, 1, 2]
    assert (rings.get_linestyle(), rings.get_markerfacecolor()) == ("None", "none")
    assert [text.get_text() for text in ax.texts] == ["x"]
    assert [patch.get_bbox().bounds for patch in ax.patches] == [(0, 0, 1, 3), (1, 2, 0.5, 4)]
    assert to_hex(ax.patches[0].get_facecolor()) == "#0072b2"


def test_one_legend_on_paper_and_labels_at_the_edges() -> None:
    drawn = draw(THREE)
    (legend,) = drawn.legends
    assert sorted(text.get_text() for text in legend.get_texts()) == ["bars", "line"]
    assert [ax.get_title(loc="left") for ax in drawn.axes] == ["Title <1>", "Second", "Third"]
    assert [(ax.get_xlabel(), ax.get_ylabel()) for ax in drawn.axes] == [("", "up"), ("across", ""), ("across", "up")]
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in drawn.axes}) == 1
    assert draw(Chart([Panel([RINGS])])).legends == []


def test_a_long_title_is_broken() -> None:
    (ax,) = draw(Chart([Panel([LINE], "a long name of an encoder: Spearman 12.34")])).axes
    assert ax.get_title(loc="left") == "a long name of an encoder: Spearman\n12.34"


def test_panels_can_have_axes_of_their_own() -> None:
    other = Panel([Series([5, 9], [5.0, 9.0], dash="-")], "Other", "x", "y")
    first, second = draw(Chart([PANEL, other], same_axes=False)).axes
    assert first.get_xlim() != second.get_xlim()
    assert (second.get_xlabel(), second.get_ylabel()) == ("x", "y")
    first, second = draw(Chart([PANEL, other], same_y=False)).axes
    assert first.get_xlim() == second.get_xlim()
    assert first.get_ylim() != second.get_ylim()


def test_numbers_on_a_logarithmic_axis_keep_apart() -> None:
    points = [0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.5]
    (ax,) = draw(Chart([Panel([Series(points, points, marker="o")], log_x=True)])).axes
    assert list(ax.get_xticks()) == points
    assert [label.get_text() for label in ax.get_xticklabels()] == [
        *("0.02", "0.05", "0.08", "0.1"),
        "",
        "0.15",
        "0.2",
        "0.5",
    ]
    (ax,) = draw(Chart([Panel([Series([3], [1], marker="o")], log_x=True)])).axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["3"]


def test_names_stand_from_the_top_down() -> None:
    (ax,) = draw(Chart([Panel([LINE], y_names=["first", "second"])])).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["first", "second"]
    assert ax.get_ylim() == (1.5, -0.5)


def test_axes_without_meaning_are_bare() -> None:
    (ax,) = draw(Chart([Panel([LINE], bare=True)])).axes
    assert (list(ax.get_xticks()), list(ax.get_yticks())) == ([], [])


def test_a_page_shows_the_text_of_a_mark_where_the_mark_is() -> None:
    line = replace(LINE, name="", colour="#123456", dash="", hover=["a<b", "", "c"])
    root = ElementTree.fromstring(svg(Chart([Panel([BARS, line])]), "name", "description"))
    width, height = (float(size) for size in str(root.get("viewBox")).split()[2:])
    first, second, *circles = [
        element for element in root.iter() if element.get("fill") is None and element.find(TITLE) is not None
    ]
    assert [element.findtext(TITLE) for element in (first, second, *circles)] == ["first", "second", "a<b", "c"]
    marks = [element for element in root.iter(f"{SVG}use") if "#123456" in str(element.get("style"))]
    assert len(marks) == len(circles) == 2
    for mark, circle in zip(marks, circles, strict=True):
        for side in "xy":
            assert float(str(mark.get(side))) == pytest.approx(float(str(circle.get(f"c{side}"))), abs=0.1)
    box = {side: float(str(second.get(side))) for side in ("x", "y", "width", "height")}
    assert box["width"] == pytest.approx(float(str(first.get("width"))) / 2, abs=0.1)
    assert box["height"] == pytest.approx(float(str(first.get("height"))) * 4 / 3, abs=0.1)
    assert box["x"] + box["width"] < width
    assert box["y"] + box["height"] < height


@pytest.mark.parametrize("count", [4, 12])
def test_looks_differ(count: int) -> None:
    looks = [look(place) for place in range(count)]
    assert len({(series.colour, series.dash) for series in looks}) == count
    assert look(12) == look(0)
