"""Pairs to read, with what people and encoders say of them (BERT-CF, Tables 3 to 6, on STS-13).

Some pairs are drawn by the seed; some are those that the last encoder named ranks most like people, and some those
that it ranks least like them. Cosines of different encoders are not on one scale, so that each pair also has its rank
among all, from 0, the least similar, to 1.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from isotune.data import ScoredPairs
from isotune.evaluation import SentenceEncoder, cosine_similarities
from isotune.lab.analyses.analysis import Table, grouped
from isotune.report.chart import Chart, Panel, Series
from isotune.report.style import INK, look

LONGEST = 64  # letters of a sentence in the picture


def compute(
    encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs], *, seed: int = 0, count: int = 3
) -> Table:
    """A row for each pair and encoder: `count` pairs at random, of the best and of the worst."""
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
    """The pairs, each in a line."""
    return [
        f"{kind}: {pair[0]['sentence1']!r} and {pair[0]['sentence2']!r}: gold {pair[0]['gold']:g}, "
        + ", ".join(f"{row['encoder']} {row['cosine']:.3f}" for row in pair)
        + "."
        for kind, rows in grouped(table, "kind").items()
        for pair in grouped(rows, "pair").values()
    ]


def draw(table: Table) -> Chart:
    """A line for each pair: its rank by gold score and by each encoder; the cosines are in the legend's order."""
    pairs = [pair for rows in grouped(table, "kind").values() for pair in grouped(rows, "pair").values()]
    names = []
    for pair in pairs:
        sides = (textwrap.shorten(pair[0][side], LONGEST, placeholder=" ...") for side in ("sentence1", "sentence2"))
        cosines = ", ".join(f"{row['cosine']:.2f}" for row in pair)
        names.append("\n".join([*sides, f"{pair[0]['kind']}: gold {pair[0]['gold']:g}; cosines {cosines}"]))
    marks = [
        Series(
            [pair[0]["gold_rank"] for pair in pairs],
            list(range(len(pairs))),
            "gold",
            INK,
            marker="D",
            size=7,
            hollow=True,
            hover=[f"gold {pair[0]['gold']:g}" for pair in pairs],
        )
    ]
    for place, rows in enumerate(zip(*pairs, strict=True)):
        name, (colour, _, marker) = rows[0]["encoder"], look(place)
        hover = [f"{name} {row['cosine']:.3f}" for row in rows]
        ranks = [row["rank"] for row in rows]
        marks.append(Series(ranks, list(range(len(pairs))), name, colour, marker=marker, size=6, hover=hover))
    panel = Panel(marks, "", "rank among all pairs", y_names=names)
    return Chart([panel], size=(7, 0.8 + 0.55 * len(pairs)))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """[N] ranks from 0, the lowest value's, to 1; equal values have their mean rank."""
    ranks: NDArray[np.float64] = (rankdata(values) - 1) / (len(values) - 1)
    return ranks
