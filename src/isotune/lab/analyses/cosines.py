"""Cosine against gold score, a point for each pair (ConSERT, Figure 1, on the test split of STS-B).

A language model gives almost all pairs a high cosine, whatever their gold scores. A good encoder's
cosines rise with the gold score.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from isotune.data import ScoredPairs
from isotune.evaluation import SentenceEncoder, cosine_similarities
from isotune.lab.analyses.analysis import Table, column, grouped, per_encoder, spearman
from isotune.report import cosines_against_gold


def compute(encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs]) -> Table:
    """Makes a row for each encoder and pair."""
    (pairs,) = tasks
    table: Table = []
    for name, encoder in encoders.items():
        for number, cosine in enumerate(cosine_similarities(encoder, pairs).tolist()):
            table.append(
                {
                    "encoder": name,
                    "sentence1": pairs.sentence1[number],
                    "sentence2": pairs.sentence2[number],
                    "gold": float(pairs.scores[number]),
                    "cosine": cosine,
                }
            )
    return table


@per_encoder
def findings(name: str, rows: Table) -> str:
    """Says how far the cosines spread, and how well they follow the gold scores."""
    gold, cosines = _columns(rows)
    low, quarter, three_quarters, high = np.quantile(cosines, (0, 0.25, 0.75, 1))
    return (
        f"{name}: cosines from {low:.2f} to {high:.2f}, half of them between {quarter:.2f} and "
        f"{three_quarters:.2f}; Spearman {100 * spearman(gold, cosines):.2f}, {len(rows):,} pairs."
    )


def draw(table: Table) -> Figure:
    """Draws a panel for each encoder, on the same axes."""
    encoders = grouped(table, "encoder")
    return cosines_against_gold({name: _columns(rows) for name, rows in encoders.items()})


def _columns(rows: Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The gold scores [N] and the cosines [N] of rows."""
    return np.array(column(rows, "gold")), np.array(column(rows, "cosine"))
