"""How long encoding takes (self-guided contrastive learning, Table 6: inference on STS-B).

Every encoder encodes all sentences once to warm up, and then several times, in turn with the other encoders, so that
other load on the machine meets all of them alike. The result is the median. The sentences are given in batches of 16,
as in the paper, shortest first; an encoder that chooses its batches by itself is faster.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from time import perf_counter

import torch
from matplotlib.figure import Figure

from isotune.data import ScoredPairs
from isotune.evaluation import SentenceEncoder
from isotune.lab.analyses.analysis import Table
from isotune.report import BLUE, INK, legend_below, names_down, panels, styled


def compute(
    encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs], *, repeats: int = 5, batch_size: int = 16
) -> Table:
    """Makes a row for each encoder; the column "passes" has the seconds of each repeat."""
    sentences = [sentence for pairs in tasks for side in (pairs.sentence1, pairs.sentence2) for sentence in side]
    sentences.sort(key=len)
    batches = [sentences[first : first + batch_size] for first in range(0, len(sentences), batch_size)]
    encoders = dict(encoders)  # holds each encoder, so that the warm one is measured
    passes: dict[str, list[float]] = {name: [] for name in encoders}
    for repeat in range(repeats + 1):  # the first warms up
        for name, encoder in encoders.items():
            start = perf_counter()
            for batch in batches:
                encoder.encode(batch)
            passes[name] += [perf_counter() - start] if repeat else []
    return [
        {
            "encoder": name,
            "sentences": len(sentences),
            "batch_size": batch_size,
            "seconds": median(seconds),
            "passes": seconds,
            "device": str(getattr(encoders[name], "device", "cpu")),
            "threads": torch.get_num_threads(),
        }
        for name, seconds in passes.items()
    ]


def findings(table: Table) -> list[str]:
    """Says the median time of each encoder, and the range."""
    return [
        f"{row['encoder']}: {row['seconds']:.2f} s for {row['sentences']:,} sentences in batches of "
        f"{row['batch_size']} (median of {len(row['passes'])}, from {min(row['passes']):.2f} to "
        f"{max(row['passes']):.2f}), {row['sentences'] / row['seconds']:,.0f} a second; {row['device']}, "
        f"threads: {row['threads']}."
        for row in table
    ]


@styled
def draw(table: Table) -> Figure:
    """Draws a bar for each encoder, with a point for each pass."""
    label = f"seconds to encode {table[0]['sentences']:,} sentences"
    figure, (ax,) = panels([""], label, size=(5, 1.1 + 0.4 * len(table)))
    ax.barh(range(len(table)), [row["seconds"] for row in table], 0.6, color=BLUE, label="median")
    points = [(seconds, place) for place, row in enumerate(table) for seconds in row["passes"]]
    ax.plot(*zip(*points, strict=True), "o", color=INK, label="passes")
    names_down(ax, [row["encoder"] for row in table])
    return legend_below(figure)
