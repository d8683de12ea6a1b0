"""STS if the mean over tokens leaves out the k most frequent tokens (ConSERT, section 5.1 and Figure 4).

The most frequent tokens dominate a language model's mean, which is better without some of them. As in the paper, tokens
are counted in the test split of STS-B, special tokens included; if that is not among the tasks, they are counted in all
tasks. The model reads every token; only the mean leaves some out. A sentence that loses all tokens becomes the zero
vector, whose cosine is 0.

The mean is taken over the layers that the encoder pools. Its heads are applied only if it pools by the mean, because
they are trained for the encoder's pooling.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from statistics import fmean

import torch
from matplotlib.figure import Figure
from torch import Tensor

from isotune.data import Packed, ScoredPairs
from isotune.encoder import Encoder
from isotune.evaluation import SentenceEncoder
from isotune.lab.analyses.analysis import (
    Pool,
    Table,
    grouped,
    language_models,
    per_encoder,
    pooled_spearman,
)
from isotune.report import RING, legend_below, look, panels, styled, whole_numbers

COUNTED_ON = ("stsb:test", "senteval-stsb:test")


def compute(
    encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs], *, most: int = 100
) -> Table:
    """Makes a row for each encoder and number of removed tokens, from 0 to `most`.

    The column "spearman" is the mean over the tasks; "empty" is the share of sentences without a token left.
    """
    table: Table = []
    for name, encoder in language_models(encoders).items():
        ids = {pairs.source: encoder.tokenize(pairs.sentence1 + pairs.sentence2) for pairs in tasks}
        everything = list(chain(*ids.values()))
        counted = next((ids[task] for task in COUNTED_ON if task in ids), everything)
        counts = Counter(chain.from_iterable(counted))
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
        ranks = {token: rank for rank, (token, _) in enumerate(frequent)}
        # A sentence is empty once its rarest token is removed.
        rarest = [max(ranks.get(token, most) for token in sentence) for sentence in everything]
        pool = _mean_without_each(encoder, list(ranks))
        scores = {pairs.source: pooled_spearman(encoder, pairs, pool) for pairs in tasks}
        texts = encoder.tokenizer.convert_ids_to_tokens(list(ranks))
        for k, (token, (_, count)) in enumerate(
            zip(["", *texts], [(0, 0), *frequent], strict=True)
        ):
            by_task = {task: values[k] for task, values in scores.items()}
            table.append(
                {
                    "encoder": name,
                    "removed": k,
                    "token": token,
                    "count": count,
                    "empty": fmean(rank < k for rank in rarest),
                    "spearman": fmean(by_task.values()),
                    "tasks": by_task,
                }
            )
    return table


@per_encoder
def findings(name: str, rows: Table) -> str:
    """Says what removing tokens gains at best."""
    before, best = rows[0]["spearman"], max(rows, key=itemgetter("spearman"))
    return (
        f"{name}: {100 * before:.2f} with every token, at best {100 * best['spearman']:.2f} with "
        f"{best['removed']} removed ({100 * (best['spearman'] - before):+.2f})."
    )


@styled
def draw(table: Table) -> Figure:
    """Draws a line for each encoder, with a ring at its best number of removed tokens."""
    score = f"{'mean ' if len(table[0]['tasks']) > 1 else ''}Spearman x 100"
    figure, (ax,) = panels([""], "most frequent tokens removed", score, size=(4.4, 3.2))
    for place, (name, rows) in enumerate(grouped(table, "encoder").items()):
        style, best = look(place), max(rows, key=itemgetter("spearman"))
        removed, scores = [row["removed"] for row in rows], [100 * row["spearman"] for row in rows]
        ax.plot(removed, scores, label=name, **style | {"marker": ""})
        ax.plot([best["removed"]], [100 * best["spearman"]], markersize=9, **style | RING)
    whole_numbers(ax)
    return legend_below(figure)


def _mean_without_each(encoder: Encoder, tokens: Sequence[int]) -> Pool:
    pooling = replace(encoder.pooling, mode="mean").numbered(encoder.backbone.layers)
    heads = encoder.heads if encoder.pooling.mode == "mean" else None
    weights = encoder.token_weights
    if weights is None:
        weights = torch.ones(encoder.backbone.model.config.vocab_size, device=encoder.device)

    def pool(states: Mapping[int, Tensor], packed: Packed) -> Tensor:
        left, ways = weights.clone(), []
        for token in (None, *tokens):
            if token is not None:
                left[token] = 0
            means = pooling(states, packed, left)  # [N, d]
            ways.append(heads(means) * means.any(1, keepdim=True) if heads else means)
        return torch.stack(ways, 1)

    return pool
