"""Charts for a browser, drawn by plotly: they zoom, series can be switched off, and hovering explains a point.

plotly's script, 5 MB, is one file that all pages of a folder share; a page fetches nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotune.files import write_text
from isotune.report.chart import Band, Bars, Chart, Mark, Panel
from isotune.report.style import BAND_OPACITY
from isotune.report.templates import template

if TYPE_CHECKING:
    from plotly.basedatatypes import BaseTraceType
    from plotly.graph_objects import Figure

PIXELS = 110  # per inch of the printed figure
GAP = 90  # pixels between two rows of panels, for the labels below one and the title of the next
DASHES = {"-": "solid", "--": "dash", ":": "dot"}
MARKERS = {"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond"}


def save_page(path: Path, title: str, texts: Sequence[str], chart: Chart) -> None:
    """Write a page with a title, the chart, and paragraphs below it. Without plotly, it raises `ImportError`."""
    from plotly.offline import get_plotlyjs

    script = path.with_name("plotly.min.js")
    if not script.exists():
        write_text(script, get_plotlyjs())
    div = plotly_figure(chart).to_html(
        full_html=False, include_plotlyjs="directory", config={"responsive": True}, div_id="chart"
    )
    write_text(path, template("chart.html.j2").render(title=title, chart=div, texts=texts))


def plotly_figure(chart: Chart) -> Figure:
    """Return the chart as a figure of plotly's."""
    from plotly.subplots import make_subplots

    rows, columns = chart.shape
    height = PIXELS * rows * chart.size[1]
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[_html(panel.title) for panel in chart.panels],
        shared_xaxes="all" if chart.same_axes else False,
        shared_yaxes="all" if chart.same_axes and chart.same_y else False,
        vertical_spacing=GAP / height if rows > 1 else None,
    )
    named: set[str] = set()
    for i, panel in enumerate(chart.panels):
        place = {"row": i // columns + 1, "col": i % columns + 1}
        for mark in panel.marks:
            figure.add_trace(_trace(mark, first=mark.name not in named), **place)
            if not isinstance(mark, Band):
                named.add(mark.name)
        _format_axes(figure, panel, place)
    figure.update_xaxes(showticklabels=True)
    figure.update_layout(
        template="simple_white",
        height=height + 100,
        barmode="overlay",  # bars have a place of their own
        hovermode="closest",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1 + 30 / height},
    )
    return figure


def _trace(mark: Mark, first: bool) -> BaseTraceType:
    """Return a mark as plotly's trace. Of the marks of one name, the first is in the legend and stands for all."""
    from plotly import graph_objects

    if isinstance(mark, Band):
        red, green, blue = (int(mark.colour[i : i + 2], 16) for i in (1, 3, 5))
        return graph_objects.Scatter(
            x=[*mark.x, *reversed(mark.x)],
            y=[*mark.low, *reversed(mark.high)],
            mode="none",
            fill="toself",
            fillcolor=f"rgba({red}, {green}, {blue}, {BAND_OPACITY})",
            legendgroup=mark.name,
            showlegend=False,
            hoverinfo="skip",
        )
    common = {
        "name": _html(mark.name),
        "legendgroup": mark.name,
        "showlegend": bool(mark.name) and first,
        "hovertext": [_html(text) for text in mark.hover] or None,
        "hoverinfo": "text" if mark.hover else None,
    }
    if isinstance(mark, Bars):
        middles = [left + width / 2 for left, width in zip(mark.left, mark.width, strict=True)]
        marker = {"color": mark.colour, "line": {"width": 0}}
        return graph_objects.Bar(x=middles, y=mark.height, base=mark.bottom, width=mark.width, marker=marker, **common)
    drawn = {"lines": mark.dash, "markers": mark.marker, "text": mark.labels}
    return graph_objects.Scatter(
        x=mark.x,
        y=mark.y,
        mode="+".join(mode for mode, is_drawn in drawn.items() if is_drawn),
        text=list(mark.labels) or None,
        textfont={"color": mark.colour},
        opacity=mark.opacity if mark.dash else 1,
        line={"color": mark.colour, "dash": DASHES.get(mark.dash), "width": mark.width},
        marker={
            "color": mark.colour,
            "size": 1.5 * mark.size,
            "opacity": 1 if mark.dash else mark.opacity,  # of each point, so that many points are darker
            "symbol": MARKERS.get(mark.marker, "circle") + ("-open" if mark.hollow else ""),
            "line": {"width": 2 if mark.hollow else 0},
        },
        **common,
    )


def _format_axes(figure: Figure, panel: Panel, place: dict[str, int]) -> None:
    shown = {"showgrid": not panel.bare, "visible": not panel.bare}
    figure.update_xaxes(title_text=panel.x_label, **shown, **_named_ticks(panel.x_names), **place)
    figure.update_yaxes(title_text=panel.y_label, **shown, **_named_ticks(panel.y_names, downwards=True), **place)
    if panel.whole_x:
        figure.update_xaxes(tickformat="d", **place)
    if panel.log_x:
        figure.update_xaxes(type="log", tickvals=panel.points, **place)


def _named_ticks(names: Sequence[str], downwards: bool = False) -> dict[str, list[Any]]:
    """Return plotly's options for names at 0, 1, ... of an axis; none if there are no names."""
    if not names:
        return {}
    ends = [-0.5, len(names) - 0.5]
    texts = [_html(name) for name in names]
    return {"tickvals": [*range(len(names))], "ticktext": texts, "range": ends[::-1] if downwards else ends}


def _html(text: str) -> str:
    """Return text as plotly needs it, which reads some HTML."""
    return escape(text).replace("\n", "<br>")
