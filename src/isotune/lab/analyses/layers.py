"""STS by layer and pooling (self-guided contrastive learning, Figure 1, on the test split of STS-B).

Layer 0 is the output of the embeddings, layer k that of block k. Every way is one of the plain model: its heads, made
for the encoder's own vector, are left out. All of them come from one forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor

from isotune.data import ScoredPairs
from isotune.data.packed import Packed
from isotune.encoder.options import PoolingMode
from isotune.encoder.pooling import EachLayer
from isotune.evaluation import SentenceEncoder, cosine_similarities
from isotune.lab.analyses.analysis import Table, grouped, spearman, task_name
from isotune.lab.analyses.hidden_states import language_models, pooled_cosines
from isotune.report.chart import Chart, Panel, Series
from isotune.report.style import INK, look

MODES: tuple[PoolingMode, ...] = ("cls", "mean", "max")
OWN = "as it is"


def compute(encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs]) -> Table:
    """A row for each encoder, pooling and layer, and one for its own vectors; `spearman` is the mean over tasks."""
    table: Table = []
    for name, encoder in language_models(encoders).items():
        layers = tuple(range(encoder.backbone.layers + 1))

        def pool(states: Sequence[Tensor], tokens: Packed, layers: tuple[int, ...] = layers) -> Tensor:
            return torch.cat([EachLayer(mode, layers)(states, tokens) for mode in MODES], dim=1)

        ways: list[tuple[str, int | None]] = [(mode, layer) for mode in MODES for layer in layers]
        scores = {
            task_name(pairs): [
                spearman(pairs.scores, cosines)
                for cosines in (*pooled_cosines(encoder, pairs, pool), cosine_similarities(encoder, pairs))
            ]
            for pairs in tasks
        }
        for i, (mode, layer) in enumerate([*ways, (OWN, None)]):
            by_task = {task: values[i] for task, values in scores.items()}
            mean = fmean(by_task.values())
            table.append({"encoder": name, "pooling": mode, "layer": layer, "spearman": mean, "tasks": by_task})
    return table


def findings(table: Table) -> list[str]:
    """The lowest and the highest way of each encoder; before the first block, [CLS] is the same in all sentences."""
    found = []
    for name, rows in grouped(table, "encoder").items():
        *ways, own = (row for row in rows if (row["pooling"], row["layer"]) != ("cls", 0))
        low, high = (
            f"{100 * row['spearman']:.2f} ({row['pooling']}, layer {row['layer']})"
            for row in (min(ways, key=_score), max(ways, key=_score))
        )
        found.append(f"{name}: from {low} to {high}; {OWN}, {100 * own['spearman']:.2f}.")
    return found


def draw(table: Table) -> Chart:
    """A panel for each encoder, a line for each pooling, and its own score as a level."""
    panels = []
    for name, (*rows, own) in grouped(table, "encoder").items():
        last = max(row["layer"] for row in rows)
        level = 100 * own["spearman"]
        marks = [Series([0, last], [level, level], OWN, INK, "--", width=1, hover=[f"{OWN}: {level:.2f}"] * 2)]
        for place, (mode, line) in enumerate(grouped(rows, "pooling").items()):
            colour, _, marker = look(place)
            marks.append(
                Series(
                    [row["layer"] for row in line],
                    [100 * row["spearman"] for row in line],
                    mode,
                    colour,
                    "-",
                    marker,
                    hover=[f"{mode}, layer {row['layer']}: {100 * row['spearman']:.2f}" for row in line],
                )
            )
        panels.append(Panel(marks, name, "layer", "Spearman x 100", whole_x=True))
    return Chart(panels)


def _score(row: dict[str, float]) -> float:
    return row["spearman"]
