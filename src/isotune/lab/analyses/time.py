"""How long encoding takes (self-guided contrastive learning, Table 6: inference on STS-B).

Every encoder encodes all sentences of the pairs once to warm up, then several times, in turn with the others, so that
what else the machine does meets them alike. The figure is the median. Batches are the encoder's own; the paper's
were of 16 sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import median
from time import perf_counter

import torch

from isotune.data import ScoredPairs
from isotune.evaluation import SentenceEncoder
from isotune.lab.analyses.analysis import Table
from isotune.report.chart import Bars, Chart, Panel, Series
from isotune.report.style import BLUE, INK


def compute(encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs], *, repeats: int = 5) -> Table:
    """A row for each encoder; `passes` are the seconds of each repeat."""
    sentences = list(chain.from_iterable(chain(pairs.sentence1, pairs.sentence2) for pairs in tasks))
    encoders = dict(encoders)  # each is held, so that what is warm is measured
    passes: dict[str, list[float]] = {name: [] for name in encoders}
    for encoder in encoders.values():
        encoder.encode(sentences)
    for _ in range(repeats):
        for name, encoder in encoders.items():
            start = perf_counter()
            encoder.encode(sentences)
            passes[name].append(perf_counter() - start)
    return [
        {
            "encoder": name,
            "sentences": len(sentences),
            "seconds": median(seconds),
            "passes": seconds,
            "device": str(getattr(encoders[name], "device", "cpu")),
            "threads": torch.get_num_threads(),
        }
        for name, seconds in passes.items()
    ]


def findings(table: Table) -> list[str]:
    """The median time of each encoder, and between which it lies."""
    return [
        f"{row['encoder']}: {row['seconds']:.2f} s for {row['sentences']:,} sentences (median of {len(row['passes'])}, "
        f"from {min(row['passes']):.2f} to {max(row['passes']):.2f}), {row['sentences'] / row['seconds']:,.0f} a "
        f"second; {row['device']}, threads: {row['threads']}."
        for row in table
    ]


def draw(table: Table) -> Chart:
    """A bar for each encoder, its passes as points."""
    n = len(table)
    medians, places = [row["seconds"] for row in table], range(n)
    bars = Bars(
        [0.0] * n,
        [place - 0.3 for place in places],
        medians,
        [0.6] * n,
        "median",
        BLUE,
        [f"{seconds:.3f} s" for seconds in medians],
    )
    seconds = [one for row in table for one in row["passes"]]
    rows = [place for place, row in enumerate(table) for _ in row["passes"]]
    points = Series(seconds, rows, "passes", INK, marker="o", size=5)
    names = [row["encoder"] for row in table]
    label = f"seconds to encode {table[0]['sentences']:,} sentences"
    return Chart([Panel([bars, points], "", label, y_names=names)], size=(5, 1.1 + 0.4 * n))
