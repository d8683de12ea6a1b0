"""The picture of a run for sharing, `share.png`: the verdict, and the difference it rests on."""

import textwrap
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from isotune.evaluation.run_results import RunEvaluation
from isotune.report.drawing import BLUE, GREEN, VERMILION, any_script, save_png, styled
from isotune.report.figures import draw_gains
from isotune.report.verdict import advice, gain_sentence, reason

PICTURE = "share.png"

SIZE = (12.0, 6.3)
"""The size in inches: 1200 x 630 pixels, which pages that show a link expect."""

DPI = 100
EDGE = 0.06
"""The margin at the left and the right, as a share of the width."""

CUT = " ..."
"""What stands for the end of a text that is too long."""

COLOURS = {"NEW": GREEN, "KEEP": VERMILION, "CAN'T TELL": BLUE}
"""The colour of the stripe, by the verdict."""


def write_picture(run: Path, made: str, evaluation: RunEvaluation) -> Path:
    """Writes `share.png` into the run folder; `made` says what the run made."""
    path = run / PICTURE
    save_png(share_figure(made, evaluation), path, DPI)
    return path


@styled
def share_figure(made: str, evaluation: RunEvaluation) -> Figure:
    """Draws the picture: what the run made, the verdict, and the interval of the difference."""
    verdict = evaluation.verdict
    headline = evaluation.headline
    figure = Figure(figsize=SIZE, facecolor="white")
    stripe = figure.add_axes((0, 0, 0.018, 1))
    stripe.set_facecolor(COLOURS[verdict.word])
    stripe.set_xticks([])
    stripe.set_yticks([])
    said, _, _ = advice(verdict).partition(".")
    _write(figure, 0.9, made, fontsize=22, alpha=0.7, width=0.72)
    _write(figure, 0.76, said, fontsize=46, fontweight="bold")
    _write(figure, 0.635, f"because {reason(evaluation)}", fontsize=22, lines=2)
    figure.text(1 - EDGE, 0.9, "isotune", fontsize=24, fontweight="bold", va="center", ha="right")
    if headline:
        _write(figure, 0.5, gain_sentence(headline), fontsize=19, lines=3)
        axis = figure.add_axes((EDGE, 0.18, 1 - 2 * EDGE, 0.22))
        draw_gains(axis, [headline], thickness=22)
        _enlarge(axis)
    return figure


def _write(
    figure: Figure, y: float, text: str, *, width: float = 1 - 2 * EDGE, lines: int = 1, **look: Any
) -> None:
    """Writes a text at the left edge, in lines that fit into a share of the figure's width."""
    shown = figure.text(EDGE, y, "", va="center", **look)
    points = width * 72 * figure.get_figwidth()
    shown.set_text(fitting(text, points, shown.get_fontproperties(), lines))


def fitting(text: str, width: float, font: FontProperties, lines: int) -> str:
    """The text in lines that are no wider than some points; what is too much is left out."""
    # No letter is narrower than a quarter of the font's size.
    most = int(4 * width / font.get_size_in_points())
    for letters in range(min(most, len(text)), len(CUT), -1):
        wrapped = textwrap.wrap(text, letters, max_lines=lines, placeholder=CUT)
        if all(_width(line, font) <= width for line in wrapped):
            return "\n".join(wrapped)
    return CUT.strip()


def _width(line: str, font: FontProperties) -> float:
    """The width in points of a line."""
    with any_script():
        width, _, _ = text_to_path.get_text_width_height_descent(line, font, ismath=False)
    return float(width)


def _enlarge(axis: Axes) -> None:
    """Makes the axis fit for a small picture."""
    axis.set_ylim(0.6, -0.6)
    axis.tick_params(labelsize=18)
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("difference from the start, in points, with its 95 % interval", fontsize=18)
