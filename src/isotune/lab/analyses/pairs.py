"""Pairs to read, with their gold scores and cosines (BERT-CF, Tables 3 to 6, on STS-13).

Some pairs are drawn at random. Others are those that the last encoder ranks most like the gold scores ("best"), and
least like them ("worst"). Cosines of different encoders are not on one scale, so each pair also has its rank among all
pairs, from 0 (least similar) to 1.
"""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import rankdata

from isotune.data import ScoredPairs
from isotune.evaluation import SentenceEncoder, cosine_similarities
from isotune.lab.analyses.analysis import Table, grouped
from isotune.report import INK, RING, legend_below, look, names_down, panels, styled

LONGEST = 64  # letters of a sentence in the picture


def compute(
    encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs], *, seed: int = 0, count: int = 3
) -> Table:
    """Makes a row for each pair and encoder: `count` random pairs, `count` of the best and `count` of the worst."""
    (pairs,) = tasks
    cosines = {name: cosine_similarities(encoder, pairs) for name, encoder in encoders.items()}
    ranks = {name: _ranks(values) for name, values in cosines.items()}
    gold_ranks = _ranks(pairs.scores)
    order = np.random.default_rng(seed).permutation(len(gold_ranks))
    errors = np.abs(ranks[list(encoders)[-1]] - gold_ranks)
    by_error = order[np.argsort(errors[order], kind="stable")]
    chosen = {"random": order[:count], "best": by_error[:count], "worst": by_error[::-1][:count]}
    return [
        {
            "kind": kind,
            "pair": int(i),
            "sentence1": pairs.sentence1[i],
            "sentence2": pairs.sentence2[i],
            "gold": float(pairs.scores[i]),
            "gold_rank": float(gold_ranks[i]),
            "encoder": name,
            "cosine": float(cosines[name][i]),
            "rank": float(ranks[name][i]),
        }
        for kind, members in chosen.items()
        for i in members
        for name in encoders
    ]


def findings(table: Table) -> list[str]:
    """Writes each pair in a line, with its scores."""
    sentences = []
    for pair in _pairs(table):
        row, cosines = pair[0], ", ".join(f"{row['encoder']} {row['cosine']:.3f}" for row in pair)
        texts = f"{row['sentence1']!r} and {row['sentence2']!r}"
        sentences.append(f"{row['kind']}: {texts}: gold {row['gold']:g}, {cosines}.")
    return sentences


@styled
def draw(table: Table) -> Figure:
    """Draws a line for each pair: its rank by gold score and by each encoder, and its cosines beside the sentences."""
    pairs = _pairs(table)
    names = []
    for pair in pairs:
        sides = (textwrap.shorten(pair[0][side], LONGEST, placeholder=" ...") for side in ("sentence1", "sentence2"))
        cosines = ", ".join(f"{row['cosine']:.2f}" for row in pair)
        names.append("\n".join([*sides, f"{pair[0]['kind']}: gold {pair[0]['gold']:g}; cosines {cosines}"]))
    figure, (ax,) = panels([""], "rank among all pairs", size=(7, 0.8 + 0.55 * len(pairs)))
    places = range(len(pairs))
    ranks = [pair[0]["gold_rank"] for pair in pairs]
    ax.plot(ranks, places, color=INK, markersize=7, label="gold", **RING | {"marker": "D"})
    for number, rows in enumerate(zip(*pairs, strict=True)):
        ranks = [row["rank"] for row in rows]
        ax.plot(ranks, places, markersize=6, label=rows[0]["encoder"], **look(number) | {"linestyle": "none"})
    names_down(ax, names)
    return legend_below(figure)


def _pairs(table: Table) -> list[Table]:
    return [pair for rows in grouped(table, "kind").values() for pair in grouped(rows, "pair").values()]


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ranks [N] of N values, from 0 (lowest) to 1; equal values have their mean rank."""
    return np.asarray((rankdata(values) - 1) / (len(values) - 1))
