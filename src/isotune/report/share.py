"""The picture of a run for sharing, `share.png`: the verdict, and the difference it rests on."""

import textwrap
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isotune.evaluation.results import RunEvaluation
from isotune.report.drawing import BLUE, GREEN, VERMILION, save_png, styled
from isotune.report.figures import draw_gains
from isotune.report.verdict import ADVICE, gain_sentence

PICTURE = "share.png"

SIZE = (12.0, 6.3)
"""The size in inches: 1200 x 630 pixels, which pages that show a link expect."""

DPI = 100
EDGE = 0.06
"""The margin at the left and the right, as a share of the width."""

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
    made = textwrap.shorten(made, 64, placeholder=" ...")
    figure.text(EDGE, 0.9, made, fontsize=22, alpha=0.7, va="center")
    advice, _, _ = ADVICE[verdict.word].partition(".")
    figure.text(EDGE, 0.76, advice, fontsize=50, fontweight="bold", va="center")
    why = textwrap.shorten(verdict.why, 70, placeholder=" ...")
    figure.text(EDGE, 0.64, f"because {why}", fontsize=24, va="center")
    figure.text(1 - EDGE, 0.9, "isotune", fontsize=24, fontweight="bold", va="center", ha="right")
    if headline:
        sentence = textwrap.fill(gain_sentence(headline), 80)
        figure.text(EDGE, 0.5, sentence, fontsize=19, va="center")
        axis = figure.add_axes((EDGE, 0.18, 1 - 2 * EDGE, 0.22))
        draw_gains(axis, [headline], thickness=22)
        _enlarge(axis)
    return figure


def _enlarge(axis: Axes) -> None:
    """Makes the axis fit for a small picture."""
    axis.set_ylim(0.6, -0.6)
    axis.tick_params(labelsize=18)
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("difference from the start, in points, with its 95 % interval", fontsize=18)
