"""The most and the least similar pairs in the plane.

The figures are from self-guided contrastive learning, Figures 5 and 6. The paper samples 20 pairs
with score 5 and 20 with score 0 from STS-B's validation split, and draws their vectors by t-SNE.
Here they are the pairs of the highest and of the lowest scores; the seed chooses among equal
scores. Vectors are scaled to length 1 first, because the encoder is used by its cosines. t-SNE
preserves neighbours but not distances, so the findings are about cosines.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.manifold import TSNE
from sklearn.preprocessing import normalize

from isotune.data import ScoredPairs
from isotune.evaluation import SentenceEncoder, sentence_vectors
from isotune.lab.analyses.analysis import Table, column, grouped, per_encoder
from isotune.report import BLUE, VERMILION, legend_below, panels, styled

MOST = "most similar"
LEAST = "least similar"
LOOKS = {MOST: (VERMILION, "-"), LEAST: (BLUE, ":")}
"""The colour of each kind of pair, and the dash of the lines that join its pairs."""

PERPLEXITY = 30
"""scikit-learn's default; the paper names none."""


def compute(
    encoders: Mapping[str, SentenceEncoder],
    tasks: Sequence[ScoredPairs],
    *,
    seed: int = 0,
    count: int = 20,
) -> Table:
    """Makes a row for each encoder and sentence, of `count` pairs of each kind.

    If there are too few pairs, there are fewer of each kind.
    """
    (pairs,) = tasks
    order = np.random.default_rng(seed).permutation(len(pairs.scores))
    order = order[np.argsort(pairs.scores[order], kind="stable")]
    count = min(count, len(order) // 2)
    chosen = [*order[-count:], *order[:count]]
    sides = (pairs.sentence1, pairs.sentence2)
    sentences = [side[i] for side in sides for i in chosen]
    table: Table = []
    for name, encoder in encoders.items():
        vectors = sentence_vectors(encoder.encode, sentences, pairs.name)
        unit = normalize(vectors.astype(np.float64))  # [4 count, d]
        first, second = np.split(unit, 2)
        cosines = (first * second).sum(1)  # [2 count]
        tsne = TSNE(perplexity=min(PERPLEXITY, (len(unit) - 1) / 3), random_state=seed)
        plane = tsne.fit_transform(unit).reshape(2, 2 * count, 2)  # by side, pair and axis
        for number, row in enumerate(chosen):
            for side in (0, 1):
                table.append(
                    {
                        "encoder": name,
                        "kind": MOST if number < count else LEAST,
                        "pair": number % count + 1,
                        "sentence": sides[side][row],
                        "gold": float(pairs.scores[row]),
                        "cosine": float(cosines[number]),
                        "x": float(plane[side, number, 0]),
                        "y": float(plane[side, number, 1]),
                    }
                )
    return table


@per_encoder
def findings(name: str, rows: Table) -> str:
    """Says the mean cosine of each kind of pair."""
    texts = []
    for kind, members in grouped(rows, "kind").items():
        mean = fmean(column(members, "cosine"))
        texts.append(f"{mean:.2f} of the {len(rows) // 4} {kind}")
    return f"{name}: mean cosine {', '.join(texts)} pairs."


@styled
def draw(table: Table) -> Figure:
    """Draws a panel for each encoder.

    A pair's two sentences have its number, and a line joins them.
    """
    encoders = grouped(table, "encoder")
    figure, axes = panels(list(encoders), size=(3.4, 3.4), same="")
    for ax, rows in zip(axes, encoders.values(), strict=True):
        for kind, members in grouped(rows, "kind").items():
            _draw_pairs(ax, kind, members)
        ax.set(xticks=[], yticks=[])
        ax.spines[["top", "right"]].set_visible(True)
    return legend_below(figure)


def _draw_pairs(ax: Axes, kind: str, rows: Table) -> None:
    """Draws the pairs of a kind, with an entry for the legend."""
    colour, dash = LOOKS[kind]
    scores = sorted(set(column(rows, "gold")))
    span = f"{scores[0]:g}"
    if len(scores) > 1:
        span = f"{span} to {scores[-1]:g}"
    ax.plot([], [], dash, color=colour, label=f"{kind} (gold {span})")
    for pair in grouped(rows, "pair").values():
        ax.plot(column(pair, "x"), column(pair, "y"), dash, color=colour, linewidth=0.8)
    style: dict[str, Any] = {"color": colour, "fontsize": 7, "ha": "center", "va": "center"}
    for row in rows:
        ax.text(row["x"], row["y"], row["pair"], **style)
