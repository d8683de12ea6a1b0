"""STS if the mean over tokens leaves out the k most frequent tokens.

The figure is from ConSERT, section 5.1 and Figure 4. The most frequent tokens dominate a language
model's mean, which is better without some of them. As in the paper, tokens are counted in the test
split of STS-B, special tokens included; if that is not among the tasks, they are counted in all
tasks. The model reads every token; only the mean leaves some out. A sentence that loses all tokens
becomes the zero vector, whose cosine is 0.

The mean is taken over the layers that the encoder pools. Its heads are applied only if it pools by
the mean, because they are trained for the encoder's pooling.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from statistics import fmean

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from isotune.data import Packed, ScoredPairs
from isotune.encoder import Encoder
from isotune.evaluation import SentenceEncoder
from isotune.lab.analyses.analysis import (
    Pool,
    Table,
    column,
    grouped,
    language_models,
    of_task,
    per_encoder,
    pooled_spearman,
)
from isotune.report import RING, legend_below, look, panels, styled, whole_numbers

COUNTED_ON = ("stsb:test", "senteval-stsb:test")


def compute(
    encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs], *, most: int = 100
) -> Table:
    """Makes a row for each encoder and number of removed tokens, from 0 to `most`.

    The column "spearman" is the mean over the tasks; "empty" is the share of sentences without a
    token left.
    """
    table: Table = []
    for name, encoder in language_models(encoders).items():
        ids = {pairs.source: encoder.tokenize(pairs.sentence1 + pairs.sentence2) for pairs in tasks}
        frequent = _most_frequent(ids, most)
        tokens = list(frequent)
        pool = _mean_without_each(encoder, tokens)
        scores = {pairs.source: pooled_spearman(encoder, pairs, pool) for pairs in tasks}
        texts = ["", *encoder.tokenizer.convert_ids_to_tokens(tokens)]
        counts = [0, *frequent.values()]
        rarest = _rarest_ranks(ids, tokens, most)
        for removed, (text, count) in enumerate(zip(texts, counts, strict=True)):
            by_task = of_task(scores, removed)
            table.append(
                {
                    "encoder": name,
                    "removed": removed,
                    "token": text,
                    "count": count,
                    "empty": fmean(rank < removed for rank in rarest),
                    "spearman": fmean(by_task.values()),
                    "tasks": by_task,
                }
            )
    return table


def _most_frequent(ids: Mapping[str, list[list[int]]], most: int) -> dict[int, int]:
    """The counts of the most frequent tokens, in the task that is counted or in all."""
    sentences = list(chain(*ids.values()))
    for task in COUNTED_ON:
        if task in ids:
            sentences = ids[task]
            break
    counts = Counter(chain.from_iterable(sentences))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])


def _rarest_ranks(
    ids: Mapping[str, list[list[int]]], tokens: Sequence[int], most: int
) -> list[int]:
    """The rank of each sentence's rarest token: a sentence is empty once that token is removed."""
    ranks = {token: rank for rank, token in enumerate(tokens)}
    sentences = chain(*ids.values())
    return [max(ranks.get(token, most) for token in sentence) for sentence in sentences]


@per_encoder
def findings(name: str, rows: Table) -> str:
    """Says what removing tokens gains at best."""
    before = rows[0]["spearman"]
    best = max(rows, key=itemgetter("spearman"))
    gain = best["spearman"] - before
    return (
        f"{name}: {100 * before:.2f} with every token, at best {100 * best['spearman']:.2f} with "
        f"{best['removed']} removed ({100 * gain:+.2f})."
    )


@styled
def draw(table: Table) -> Figure:
    """Draws a line for each encoder, with a ring at its best number of removed tokens."""
    score = "Spearman x 100"
    if len(table[0]["tasks"]) > 1:
        score = f"mean {score}"
    figure, (ax,) = panels([""], "most frequent tokens removed", score, size=(4.4, 3.2))
    for place, (name, rows) in enumerate(grouped(table, "encoder").items()):
        style = look(place)
        best = max(rows, key=itemgetter("spearman"))
        scores = 100 * np.array(column(rows, "spearman"))
        ax.plot(column(rows, "removed"), scores, label=name, **style | {"marker": ""})
        ax.plot([best["removed"]], [100 * best["spearman"]], markersize=9, **style | RING)
    whole_numbers(ax)
    return legend_below(figure)


def _mean_without_each(encoder: Encoder, tokens: Sequence[int]) -> Pool:
    """The means over all tokens, then without the first of `tokens`, without the first two, ..."""
    pooling = replace(encoder.pooling, mode="mean").numbered(encoder.backbone.layers)
    # The heads are trained for the encoder's own pooling.
    has_heads = encoder.pooling.mode == "mean" and len(encoder.heads) > 0
    weights = encoder.token_weights
    if weights is None:
        weights = torch.ones(encoder.backbone.model.config.vocab_size, device=encoder.device)

    def mean(states: Mapping[int, Tensor], packed: Packed, left: Tensor) -> Tensor:  # [N, d]
        means = pooling(states, packed, left)
        if not has_heads:
            return means
        # A sentence without a token stays the zero vector.
        return encoder.heads(means) * means.any(1, keepdim=True)

    def pool(states: Mapping[int, Tensor], packed: Packed) -> Tensor:
        left = weights.clone()
        ways = [mean(states, packed, left)]
        for token in tokens:
            left[token] = 0
            ways.append(mean(states, packed, left))
        return torch.stack(ways, 1)

    return pool
