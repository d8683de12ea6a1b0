"""The result of an analysis and its files, and what the analyses share.

They share the grouping of a table's rows, rank correlations, and the cosines of sentence pairs from
the hidden states inside a language model, pooled in many ways in one forward pass.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from isotune.data import Packed, ScoredPairs, pack
from isotune.encoder import Encoder
from isotune.errors import InputError, UselessVectors
from isotune.evaluation import SentenceEncoder, correlations, versions
from isotune.files import write_text
from isotune.report import save_png

Row: TypeAlias = dict[str, Any]
Table: TypeAlias = list[Row]
T = TypeVar("T")
Pool = Callable[[Mapping[int, Tensor], Packed], Tensor]
"""The hidden states [T, d] of each layer -> the vectors of N sentences in C ways, [N, C, d].

The sentences are in packed order.
"""


@dataclass(frozen=True)
class Analysis:
    """An analysis of encoders."""

    name: str
    """Its key in `ANALYSES`."""

    title: str
    """What it shows, and where the figure was published."""

    tasks: Sequence[str]
    """The scored pairs that it used, each as "name:split" or as a file's name."""

    options: Mapping[str, Any]
    """The options that were given."""

    findings: Sequence[str]
    """What the table shows, in sentences."""

    table: Table
    """The numbers. Correlations and cosines are in [-1, 1]."""

    figure: Figure
    """The drawing."""

    def write(self, folder: Path) -> list[Path]:
        """Writes NAME.json and NAME.png into the folder and returns their paths."""
        data = folder / f"{self.name}.json"
        picture = folder / f"{self.name}.png"
        content = {
            "analysis": self.name,
            "versions": versions(),
            "title": self.title,
            "tasks": self.tasks,
            "options": self.options,
            "findings": self.findings,
            "table": self.table,
        }
        save_png(self.figure, picture)
        # This file is the last: where it is, `isotune analyse` takes the analysis for whole.
        write_text(data, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        return [data, picture]


def spearman(gold: NDArray[np.float64], cosines: NDArray[np.float64]) -> float:
    """Spearman's correlation of two arrays [N]; 0 if all cosines are equal.

    It is NaN if all gold scores are equal.
    """
    spearman_and_pearson = correlations(gold, cosines)
    if spearman_and_pearson is None:
        return nan
    return spearman_and_pearson[0]


def column(rows: Table, key: str) -> list[Any]:
    """The values of a column, in the order of the rows."""
    return [row[key] for row in rows]


def of_task(scores: Mapping[str, Sequence[float]], place: int) -> dict[str, float]:
    """The score at a place of each task's scores."""
    return {task: values[place] for task, values in scores.items()}


def grouped(table: Table, key: str) -> dict[Any, Table]:
    """The rows with each value of a column, in the order of the table."""
    groups: dict[Any, Table] = {}
    for row in table:
        groups.setdefault(row[key], []).append(row)
    return groups


def per_encoder(function: Callable[[str, Table], T]) -> Callable[[Table], list[T]]:
    """Makes a function of a table from a function of an encoder's name and rows.

    The function of the table lists what the other gives for each encoder.
    """

    def for_each(table: Table) -> list[T]:
        return [function(name, rows) for name, rows in grouped(table, "encoder").items()]

    return for_each


def language_models(encoders: Mapping[str, SentenceEncoder]) -> dict[str, Encoder]:
    """The encoders; refuses one without hidden states."""
    models = {}
    for name, encoder in encoders.items():
        if not isinstance(encoder, Encoder):
            raise InputError(
                f"{name} is {type(encoder).__name__}, which has no layers to look into; leave it "
                "out"
            )
        models[name] = encoder
    return models


@torch.no_grad()
def pooled_spearman(encoder: Encoder, pairs: ScoredPairs, pool: Pool) -> list[float]:
    """Spearman's correlation of each of C ways to pool; the cosine is 0 if a vector is zero.

    Refuses hidden states that are not finite. Both sentences of a pair are in the same batch, so
    that no vectors have to be kept.
    """
    firsts = encoder.tokenize(pairs.sentence1)
    seconds = encoder.tokenize(pairs.sentence2)
    lengths = [len(first) + len(second) for first, second in zip(firsts, seconds, strict=True)]
    encoder.eval()
    batches = encoder.batches(lengths)
    parts = []
    for batch in batches:
        # First come the n first sentences of the batch, and then the n second ones.
        sentences = [firsts[i] for i in batch] + [seconds[i] for i in batch]
        tokens = pack(sentences).to(encoder.device)
        states = encoder.backbone(tokens, layers=range(encoder.backbone.layers + 1))
        vectors = tokens.restore(pool(states, tokens))
        unit = normalize(vectors.cpu().double(), dim=-1)  # [2 n, C, d]
        first, second = unit.chunk(2)
        parts.append((first * second).sum(-1).numpy())  # [n, C]
    order = np.concatenate(batches).argsort()
    cosines = np.concatenate(parts)[order]  # [N, C]
    if not np.isfinite(cosines).all():
        raise UselessVectors(
            f"{pairs.name}: the model's hidden states have NaN or infinite values; load it with "
            "another precision, or take another model"
        )
    # They are rounded as `cosine_similarities` rounds.
    return [spearman(pairs.scores, way) for way in cosines.T.round(10)]
