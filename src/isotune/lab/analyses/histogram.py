"""The distribution of cosines, by bands of the gold score (BERT-CF, Figures 2 and 3, on STS-13).

The bands are fifths of the range of gold scores, which on STS-13 are the whole points from 0 to 5.
"""

from collections.abc import Mapping, Sequence
from math import floor

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from isotune.data import ScoredPairs
from isotune.errors import counted
from isotune.evaluation import SentenceEncoder, cosine_similarities
from isotune.lab.analyses.analysis import Row, Table, grouped, per_encoder
from isotune.report import legend_below, panels, styled

BANDS = 5
BINS = 50
"""The number of bins from cosine 0 to 1."""


def compute(encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs]) -> Table:
    """Makes a row for each encoder and band.

    A row has the number of the band's pairs between each two edges of cosine.
    """
    (pairs,) = tasks
    cosines = {name: cosine_similarities(encoder, pairs) for name, encoder in encoders.items()}
    lowest = min(values.min() for values in cosines.values())
    edges = np.arange(min(0, floor(BINS * lowest)), BINS + 1) / BINS
    limits = np.linspace(pairs.scores.min(), pairs.scores.max(), BANDS + 1)
    # The bands of the N pairs have the numbers 0 to 4.
    bands = np.digitize(pairs.scores, limits[1:-1])
    table: Table = []
    for name, values in cosines.items():
        for band in range(BANDS):
            inside = values[bands == band].clip(edges[0], 1)
            counts, _ = np.histogram(inside, edges)
            table.append(
                {
                    "encoder": name,
                    "from": float(limits[band]),
                    "to": float(limits[band + 1]),
                    "pairs": len(inside),
                    "mean": float(inside.mean()) if len(inside) else None,
                    "edges": edges.tolist(),
                    "counts": counts.tolist(),
                }
            )
    return table


@per_encoder
def findings(name: str, rows: Table) -> str:
    """Says the mean cosine of the lowest and of the highest band."""
    return f"{name}: mean cosine {_mean_text(rows[0])}, {_mean_text(rows[-1])}."


def _mean_text(row: Row) -> str:
    return f"{row['mean']:.2f} of {counted(row['pairs'], 'pair')} with {_gold(row)}"


@styled
def draw(table: Table) -> Figure:
    """Draws a panel for each encoder, with its bands stacked."""
    encoders = grouped(table, "encoder")
    figure, axes = panels(list(encoders), "cosine", "pairs", same="x")
    for ax, rows in zip(axes, encoders.values(), strict=True):
        base = np.zeros(len(rows[0]["counts"]))
        for band, row in enumerate(rows):
            left = row["edges"][:-1]
            widths = np.diff(row["edges"])
            colour = colormaps["viridis"](band / BANDS)
            ax.bar(left, row["counts"], widths, base, align="edge", color=colour, label=_gold(row))
            base = base + row["counts"]
    return legend_below(figure)


def _gold(row: Row) -> str:
    return f"gold {row['from']:g} to {row['to']:g}"
