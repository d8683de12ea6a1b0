"""Charts for a browser, by plotly: they zoom, series can be switched off, and what a point stands for is shown.

plotly's script, 5 MB, is one file beside all pages of a folder; nothing is fetched from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from isotune.files import write_text
from isotune.report.chart import BAND, Band, Bars, Chart, Mark, Panel
from isotune.report.templates import template

if TYPE_CHECKING:
    from plotly.basedatatypes import BaseTraceType
    from plotly.graph_objects import Figure

PIXELS = 110  # of an inch of the printed figure
BETWEEN = 90  # pixels, for what stands below a panel and above the next
DASHES = {"-": "solid", "--": "dash", ":": "dot"}
MARKERS = {"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond"}


def save_page(path: Path, title: str, texts: Sequence[str], chart: Chart) -> None:
    """Writes a page with the chart under a title, and some paragraphs below it.

    Raises:
        ImportError: plotly is not installed.
    """
    from plotly.offline import get_plotlyjs

    script = path.with_name("plotly.min.js")
    if not script.exists():
        write_text(script, get_plotlyjs())
    div = figure(chart).to_html(full_html=False, include_plotlyjs="directory", config={"responsive": True})
    write_text(path, template("chart.html.j2").render(title=title, chart=div, texts=texts))


def figure(chart: Chart) -> Figure:
    """The chart as a figure of plotly's.

    Raises:
        ImportError: plotly is not installed.
    """
    from plotly.subplots import make_subplots

    rows, columns = chart.shape
    height = PIXELS * rows * chart.size[1]
    result = make_subplots(
        rows,
        columns,
        subplot_titles=[_plain(panel.title) for panel in chart.panels],
        shared_xaxes="all" if chart.same_axes else False,
        shared_yaxes="all" if chart.same_axes and not chart.own_y else False,
        vertical_spacing=BETWEEN / height if rows > 1 else None,
    )
    named: set[str] = set()
    for i, panel in enumerate(chart.panels):
        place = {"row": i // columns + 1, "col": i % columns + 1}
        for mark in panel.marks:
            result.add_trace(_trace(mark, first=mark.name not in named), **place)
            if not isinstance(mark, Band):
                named.add(mark.name)
        _axes(result, panel, place)
    result.update_xaxes(showticklabels=True)
    result.update_layout(
        template="simple_white",
        height=height + 100,
        barmode="overlay",  # they know where they stand
        hovermode="closest",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1 + 30 / height},
    )
    return result


def _trace(mark: Mark, first: bool) -> BaseTraceType:
    """A mark as plotly has it; of those of one name, the first is in the legend and stands for all."""
    from plotly import graph_objects

    if isinstance(mark, Band):
        return graph_objects.Scatter(
            x=[*mark.x, *reversed(mark.x)],
            y=[*mark.low, *reversed(mark.high)],
            mode="none",
            fill="toself",
            fillcolor=f"rgba({', '.join(str(int(mark.colour[i : i + 2], 16)) for i in (1, 3, 5))}, {BAND})",
            legendgroup=mark.name,
            showlegend=False,
            hoverinfo="skip",
        )
    common = {
        "name": _plain(mark.name),
        "legendgroup": mark.name,
        "showlegend": bool(mark.name) and first,
        "hovertext": [_plain(text) for text in mark.hover] or None,
        "hoverinfo": "text" if mark.hover else None,
    }
    if isinstance(mark, Bars):
        middles = [left + width / 2 for left, width in zip(mark.left, mark.width, strict=True)]
        return graph_objects.Bar(
            x=middles,
            y=mark.height,
            base=mark.bottom,
            width=mark.width,
            marker={"color": mark.colour, "line": {"width": 0}},
            **common,
        )
    drawn = {"lines": mark.dash, "markers": mark.marker, "text": mark.labels}
    return graph_objects.Scatter(
        x=mark.x,
        y=mark.y,
        mode="+".join(mode for mode, there in drawn.items() if there),
        text=list(mark.labels) or None,
        textfont={"color": mark.colour},
        opacity=mark.opacity if mark.dash else 1,
        line={"color": mark.colour, "dash": DASHES.get(mark.dash), "width": mark.width},
        marker={
            "color": mark.colour,
            "size": 1.5 * mark.size,
            "opacity": 1 if mark.dash else mark.opacity,  # of each by itself, so that many are darker
            "symbol": MARKERS.get(mark.marker, "circle") + ("-open" if mark.hollow else ""),
            "line": {"width": 2 if mark.hollow else 0},
        },
        **common,
    )


def _axes(result: Figure, panel: Panel, place: dict[str, int]) -> None:
    result.update_xaxes(title_text=panel.x_label, showgrid=not panel.bare, visible=not panel.bare, **place)
    result.update_yaxes(title_text=panel.y_label, showgrid=not panel.bare, visible=not panel.bare, **place)
    if panel.whole_x:
        result.update_xaxes(tickformat="d", **place)
    if panel.log_x:
        result.update_xaxes(type="log", tickvals=panel.points, **place)
    if panel.x_names:
        names = [_plain(name) for name in panel.x_names]
        result.update_xaxes(tickvals=list(range(len(names))), ticktext=names, range=[-0.5, len(names) - 0.5], **place)
    if panel.y_names:
        names = [_plain(name) for name in panel.y_names]
        result.update_yaxes(tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.5], **place)


def _plain(text: str) -> str:
    """Text for plotly, to which some signs are HTML."""
    return escape(text).replace("\n", "<br>")
