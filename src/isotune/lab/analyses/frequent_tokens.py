"""STS where the average leaves out the k most frequent tokens (ConSERT, section 5.1 and Figure 4).

A language model's averages are ruled by its most frequent tokens; without some of them they are better. Tokens are
counted in the test split of STS-B, the special ones too, as in the paper; where that isn't among the tasks, in what
is. The model reads all tokens, only the average leaves some out. A sentence of which none is left is the zero vector,
whose cosine is 0; the share of such sentences is in the table.

The average is that of the layers that the encoder pools. Its heads follow if it pools by the mean itself: what they
were made for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean

import torch
from torch import Tensor

from isotune.data import ScoredPairs
from isotune.data.packed import Packed
from isotune.encoder.encoder import Encoder
from isotune.evaluation import SentenceEncoder
from isotune.lab.analyses.analysis import Row, Table, grouped, spearman, task_name
from isotune.lab.analyses.hidden_states import Pool, language_models, pooled_cosines
from isotune.report.chart import Chart, Mark, Panel, Series
from isotune.report.style import look

COUNTED_ON = "stsb:test"


def compute(encoders: Mapping[str, SentenceEncoder], tasks: Sequence[ScoredPairs], *, most: int = 100) -> Table:
    """A row for each encoder and number of removed tokens, from 0 to `most`; `spearman` is the mean over tasks."""
    table: Table = []
    for name, encoder in language_models(encoders).items():
        ids = {task_name(pairs): encoder.tokenize(pairs.sentence1 + pairs.sentence2) for pairs in tasks}
        counts = _counts(chain.from_iterable(ids[COUNTED_ON] if COUNTED_ON in ids else chain(*ids.values())))
        frequent = counts[:most]
        ranks = {token: rank for rank, (token, _) in enumerate(frequent)}
        # A sentence is empty once its rarest token is removed.
        rarest = [max(ranks.get(token, most) for token in sentence) for sentence in chain(*ids.values())]
        pool = _without_each(encoder, ranks)
        scores = {
            task_name(pairs): [
                spearman(pairs.scores, cosines) for cosines in pooled_cosines(encoder, pairs, pool)[::-1]
            ]
            for pairs in tasks
        }
        texts = encoder.tokenizer.convert_ids_to_tokens(list(ranks))
        for k, (token, (_, count)) in enumerate(zip(["", *texts], [(0, 0), *frequent], strict=True)):
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


def findings(table: Table) -> list[str]:
    """What removing tokens gains at best."""
    found = []
    for name, rows in grouped(table, "encoder").items():
        before, best = rows[0]["spearman"], _best(rows)
        found.append(
            f"{name}: {100 * before:.2f} with every token, at best {100 * best['spearman']:.2f} with "
            f"{best['removed']} removed ({100 * (best['spearman'] - before):+.2f})."
        )
    return found


def draw(table: Table) -> Chart:
    """A line for each encoder, with its best number of removed tokens ringed."""
    marks: list[Mark] = []
    for place, (name, rows) in enumerate(grouped(table, "encoder").items()):
        colour, dash, _ = look(place)
        best = _best(rows)
        hover = [
            f"{row['removed']} removed: {100 * row['spearman']:.2f}"
            + (f"; the last is {row['token']}, there {row['count']:,} times" if row["token"] else "")
            for row in rows
        ]
        scores = [100 * row["spearman"] for row in rows]
        marks += [
            Series([row["removed"] for row in rows], scores, name, colour, dash, hover=hover),
            Series(
                [best["removed"]],
                [100 * best["spearman"]],
                colour=colour,
                marker="o",
                hollow=True,
                size=9,
                hover=[f"{name}, at best: {hover[best['removed']]}"],
            ),
        ]
    several = len(table[0]["tasks"]) > 1
    label = f"{'mean ' if several else ''}Spearman x 100"
    return Chart([Panel(marks, "", "most frequent tokens removed", label, whole_x=True)], size=(4.4, 3.2))


def _counts(tokens: Iterable[int]) -> list[tuple[int, int]]:
    """(token, how often it comes), the most frequent first, of equally frequent ones that of the lower number."""
    return sorted(Counter(tokens).items(), key=lambda item: (-item[1], item[0]))


def _without_each(encoder: Encoder, ranks: Mapping[int, int]) -> Pool:
    """Pools sentences by their mean in K + 1 ways: first without all K tokens, at last with every one."""
    ways = len(ranks) + 1
    added = torch.zeros(encoder.backbone.model.config.vocab_size, dtype=torch.long)  # [V]: the first way with the token
    added[list(ranks)] = len(ranks) - torch.tensor(list(ranks.values()))
    added = added.to(encoder.device)
    shares = encoder.pooling.resolve(encoder.backbone.layers)
    heads = encoder.heads if encoder.pooling.mode == "mean" else None

    def pool(states: Sequence[Tensor], tokens: Packed) -> Tensor:
        x = torch.stack([share * states[layer].float() for layer, share in shares.items()]).sum(0)  # [T, d]
        n, places = len(tokens), tokens.segments * ways + added[tokens.ids]  # [T]
        # Nothing is ever taken off a sum, which would leave rounding errors where no token is left.
        sums = x.new_zeros(n * ways, x.shape[1]).index_add(0, places, x).view(n, ways, -1).cumsum(1)  # [N, ways, d]
        counts = x.new_zeros(n * ways).index_add(0, places, x.new_ones(len(x))).view(n, ways, 1).cumsum(1)
        means = sums / counts.clamp_min(1)  # [N, ways, d]
        if heads is not None:
            means = heads(means.flatten(0, 1)).view(n, ways, -1) * (counts > 0)
        return means

    return pool


def _best(rows: Table) -> Row:
    return max(rows, key=lambda row: row["spearman"])
