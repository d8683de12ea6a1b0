"""Charts drawn by matplotlib and by plotly."""

from __future__ import annotations

from math import nan

import pytest
from matplotlib.colors import to_hex

from isotune.report.chart import Bars, Chart, Panel, Series
from isotune.report.drawing import draw
from isotune.report.interactive import plotly_figure
from isotune.report.style import look

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
    layouts = [plotly_figure(Chart([PANEL, other], same_y=same)).layout for same in (True, False)]
    assert [(layout.xaxis2.matches, layout.yaxis2.matches) for layout in layouts] == [("x", "y"), ("x", None)]


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
    axis = plotly_figure(Chart([Panel([LINE], y_names=["first\nline", "2 < 3"])])).layout.yaxis
    assert list(axis.ticktext) == ["first<br>line", "2 &lt; 3"]
    assert list(axis.range) == [1.5, -0.5]


def test_axes_without_meaning_are_bare() -> None:
    chart = Chart([Panel([LINE], bare=True)])
    (ax,) = draw(chart).axes
    assert (list(ax.get_xticks()), list(ax.get_yticks())) == ([], [])
    assert plotly_figure(chart).layout.xaxis.visible is False


def test_marks_in_a_browser() -> None:
    bars, line, rings, *other_traces = plotly_figure(THREE).data
    assert list(bars.x) == [0.5, 1.25]
    assert (list(bars.base), list(bars.y), list(bars.width)) == ([0, 2], [3, 4], [1, 0.5])
    assert (line.mode, line.line.dash, line.marker.symbol, line.line.color) == (
        "lines+markers",
        "dash",
        "square",
        "#D55E00",
    )
    assert list(line.hovertext) == ["a&lt;b", "", "c"]
    assert (rings.mode, rings.marker.symbol, list(rings.text)) == ("markers+text", "circle-open", ["x"])
    assert [trace.showlegend for trace in (bars, line, rings)] == [True, True, False]
    assert [trace.showlegend for trace in other_traces] == [False, False]  # the first stands for all of its name
    assert {trace.legendgroup for trace in other_traces} == {"line"}
    assert [note.text for note in plotly_figure(THREE).layout.annotations] == ["Title &lt;1&gt;", "Second", "Third"]


@pytest.mark.parametrize("count", [4, 12])
def test_looks_differ(count: int) -> None:
    looks = [look(place) for place in range(count)]
    assert len({(series.colour, series.dash) for series in looks}) == count
    assert look(12) == look(0)
