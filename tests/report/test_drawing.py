"""Panels and legends, as they are drawn for paper and for a page."""

from isotune.report.drawing import RING, legend_below, panels, svg


def test_one_legend_for_all_panels() -> None:
    figure, axes = panels(["One", "Two"])
    for ax in axes:
        ax.plot([0, 1], [0, 1], label="line")
    axes[1].bar([0], [1], label="bar")
    axes[1].plot([0], [0], label="_", **RING)
    (legend,) = legend_below(figure).legends
    assert [text.get_text() for text in legend.get_texts()] == ["line", "bar"]
    assert legend_below(panels([""])[0]).legends == []


def test_a_page_shows_the_text_in_its_colour() -> None:
    element = svg(panels(["Title <1>"])[0], "name", 'a "description"')
    assert element.startswith('<svg role="img" aria-label="a &quot;description&quot;" ')
    assert "Title &lt;1&gt;" in element
    assert "fill: currentColor" in element
    assert ' id="name-axes_1"' in element
