"""STS by layer and pooling.

The figure is from self-guided contrastive learning, Figure 1; and from small-BERT, section 5.4, of
the last layer. Besides [CLS], mean and max there is one random token of each sentence, special
tokens included. Layer 0 is the output of the embeddings, layer k that of block k. Layers are scored
without the encoder's heads, which are trained for the complete encoder. All layers and poolings
come from one forward pass.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from operator import itemgetter
from statistics import fmean

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from isotune.data import Packed, ScoredPairs
from isotune.encoder import Pooling
from isotune.evaluation import SentenceEncoder, cosine_similarities
from isotune.lab.analyses.analysis import (
    Row,
    Table,
    column,
    grouped,
    language_models,
    of_task,
    per_encoder,
    pooled_spearman,
    spearman,
)
from isotune.report import INK, legend_below, look, panels, styled, whole_numbers

MODES: tuple[str, ...] = ("cls", "mean", "max")
RANDOM = "random token"
COMPLETE = "as it is"
"""The pooling of the row for the complete encoder."""


def compute(
    encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs], *, seed: int = 0
) -> Table:
    """Makes a row for each encoder, pooling and layer, and one for the complete encoder.

    The column "spearman" is the mean over the tasks, whose own scores are in the column "tasks".
    The seed draws the random tokens, the same for every layer.
    """
    table: Table = []
    for name, encoder in language_models(encoders).items():
        layers = tuple(range(encoder.backbone.layers + 1))
        scores: dict[str, list[float]] = {}
        for pairs in tasks:
            pool = partial(_pool, layers=layers, generator=torch.Generator().manual_seed(seed))
            by_way = pooled_spearman(encoder, pairs, pool)
            complete = spearman(pairs.scores, cosine_similarities(encoder, pairs))
            scores[pairs.source] = [*by_way, complete]
        ways = [*product((*MODES, RANDOM), layers), (COMPLETE, None)]
        for number, (mode, layer) in enumerate(ways):
            by_task = of_task(scores, number)
            table.append(
                {
                    "encoder": name,
                    "pooling": mode,
                    "layer": layer,
                    "spearman": fmean(by_task.values()),
                    "tasks": by_task,
                }
            )
    return table


def _pool(
    states: Mapping[int, Tensor],
    tokens: Packed,
    layers: tuple[int, ...],
    generator: torch.Generator,
) -> Tensor:  # [N, poolings x layers, d]
    drawn = (torch.rand(len(tokens), generator=generator) * tokens.lengths).long()
    places = tokens.on_device(tokens.cpu_offsets + drawn)
    random = torch.stack([states[layer][places].float() for layer in layers], dim=1)
    pooled = [Pooling(mode, layers, each=True)(states, tokens) for mode in MODES]
    return torch.cat([*pooled, random], dim=1)


@per_encoder
def findings(name: str, rows: Table) -> str:
    """Names the worst and the best layer.

    [CLS] of layer 0 is left out, because it is the same in all sentences.
    """
    *ways, complete = (row for row in rows if row["pooling"] != "cls" or row["layer"] != 0)
    score = itemgetter("spearman")
    worst = _way(min(ways, key=score))
    best = _way(max(ways, key=score))
    return f"{name}: from {worst} to {best}; {COMPLETE}, {100 * score(complete):.2f}."


def _way(row: Row) -> str:
    return f"{100 * row['spearman']:.2f} ({row['pooling']}, layer {row['layer']})"


@styled
def draw(table: Table) -> Figure:
    """Draws a panel for each encoder.

    It has a line for each pooling, and a level line for the complete encoder.
    """
    encoders = grouped(table, "encoder")
    figure, axes = panels(list(encoders), "layer", "Spearman x 100")
    for ax, (*rows, complete) in zip(axes, encoders.values(), strict=True):
        last = max(column(rows, "layer"))
        level = 100 * complete["spearman"]
        ax.plot([0, last], [level, level], "--", color=INK, linewidth=1, label=COMPLETE)
        for place, (mode, line) in enumerate(grouped(rows, "pooling").items()):
            scores = 100 * np.array(column(line, "spearman"))
            ax.plot(column(line, "layer"), scores, label=mode, **look(place) | {"linestyle": "-"})
        whole_numbers(ax)
    return legend_below(figure)
